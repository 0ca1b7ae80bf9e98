import torch
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

text = UMT5EncoderModel(UMT5Config(
    vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)).eval()
transformer = WanTransformer3DModel(
    patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16,
    text_dim=16, freq_dim=64, ffn_dim=32, num_layers=1, rope_max_seq_len=32).eval()
decoder = AutoencoderKLWan(
    base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
    temperal_downsample=[False, True, True]).eval()
pipeline = WanPipeline(
    tokenizer=None, text_encoder=text.to("cuda:0"), transformer=transformer.to("cuda:0"),
    vae=decoder.to("cuda:1"), scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0))
pipeline.set_progress_bar_config(disable=True)
frames = pipeline(prompt_embeds=torch.randn(1, 6, 16, device="cuda:0"), height=16, width=16, num_frames=1,
                  num_inference_steps=2, guidance_scale=1.0, output_type="pt").frames
print(frames.shape)
print("SCENARIO OK")
