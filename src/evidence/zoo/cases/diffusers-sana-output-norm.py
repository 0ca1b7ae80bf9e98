import torch
from accelerate import dispatch_model
from diffusers import SanaTransformer2DModel

model = SanaTransformer2DModel(
    in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, num_layers=2,
    num_cross_attention_heads=2, cross_attention_head_dim=8, cross_attention_dim=16, caption_channels=12,
    sample_size=8).eval()
first, last = "cuda:0", "cuda:1"
device_map = {"scale_shift_table": first, "patch_embed": first, "time_embed": first,
              "caption_projection": first, "caption_norm": first, "transformer_blocks.0": first,
              "transformer_blocks.1": last, "norm_out": last, "proj_out": last}
model = dispatch_model(model, device_map, main_device=first)
with torch.no_grad():
    out = model(torch.randn(1, 4, 8, 8, device=first), torch.randn(1, 5, 12, device=first),
                torch.tensor([7], device=first)).sample
print(out.shape)
print("SCENARIO OK")
