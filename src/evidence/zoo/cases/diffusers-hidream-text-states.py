import torch
from accelerate import dispatch_model
from diffusers import HiDreamImageTransformer2DModel

model = HiDreamImageTransformer2DModel(
    patch_size=2, in_channels=4, out_channels=4, num_layers=1, num_single_layers=2, attention_head_dim=8,
    num_attention_heads=4, caption_channels=[8, 4], text_emb_dim=8, num_routed_experts=2,
    num_activated_experts=2, axes_dims_rope=(4, 2, 2), max_resolution=(16, 16), llama_layers=(0, 1, 1),
    force_inference_output=True).eval()
g0, g1 = "cuda:0", "cuda:1"
dm = {"t_embedder": g0, "p_embedder": g0, "x_embedder": g0, "pe_embedder": g0, "caption_projection": g0,
      "double_stream_blocks.0": g0, "single_stream_blocks.0": g1, "single_stream_blocks.1": g1,
      "final_layer": g1}
model = dispatch_model(model, dm, main_device=g0)
with torch.no_grad():
    out = model(hidden_states=torch.randn(1, 4, 16, 16, device=g0),
                timesteps=torch.tensor([300], device=g0),
                encoder_hidden_states_t5=torch.randn(1, 6, 8, device=g0),
                encoder_hidden_states_llama3=torch.randn(2, 1, 6, 4, device=g0),
                pooled_embeds=torch.randn(1, 8, device=g0)).sample
print(out.shape)
print("SCENARIO OK")
