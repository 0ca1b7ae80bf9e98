import torch
from accelerate import dispatch_model
from diffusers import AuraFlowTransformer2DModel

model = AuraFlowTransformer2DModel(
    sample_size=8, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1,
    attention_head_dim=8, num_attention_heads=4, caption_projection_dim=32, joint_attention_dim=16,
    out_channels=4, pos_embed_max_size=64).eval()
g0, g1 = "cuda:0", "cuda:1"
dm = {"register_tokens": g0, "pos_embed": g0, "time_step_embed": g0, "time_step_proj": g0,
      "context_embedder": g1, "joint_transformer_blocks": g1, "single_transformer_blocks": g1,
      "norm_out": g1, "proj_out": g1}
model = dispatch_model(model, dm, main_device=g0)
with torch.no_grad():
    out = model(hidden_states=torch.randn(1, 4, 8, 8, device=g0), timestep=torch.tensor([0.5], device=g0),
                encoder_hidden_states=torch.randn(1, 6, 16, device=g0)).sample
print(out.shape)
print("SCENARIO OK")
