import torch
from accelerate import dispatch_model
from diffusers import WanTransformer3DModel

model = WanTransformer3DModel(
    patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4,
    text_dim=16, freq_dim=64, ffn_dim=32, num_layers=2, rope_max_seq_len=32).eval()
first, last = "cuda:0", "cuda:1"
device_map = {"patch_embedding": first, "rope": first, "condition_embedder": first, "blocks.0": first,
              "blocks.1": last, "norm_out": last, "proj_out": last, "scale_shift_table": last}
model = dispatch_model(model, device_map, main_device=last)
with torch.no_grad():
    out = model(hidden_states=torch.randn(1, 4, 1, 8, 8, device=first),
                timestep=torch.tensor([3], device=first),
                encoder_hidden_states=torch.randn(1, 6, 16, device=first)).sample
print(out.shape)
print("SCENARIO OK")
