import torch
from diffusers import SD3Transformer2DModel
from peft import LoraConfig

model = SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=2,
                              attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16,
                              caption_projection_dim=16, pooled_projection_dim=16,
                              pos_embed_max_size=8).eval()
model.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=["to_q"]), adapter_name="style")
model.enable_group_offload(onload_device=torch.device("cuda:0"), offload_device=torch.device("cpu"),
                           offload_type="leaf_level", use_stream=True)
inputs = {"hidden_states": torch.randn(1, 4, 8, 8, device="cuda:0"),
          "encoder_hidden_states": torch.randn(1, 5, 16, device="cuda:0"),
          "pooled_projections": torch.randn(1, 16, device="cuda:0"),
          "timestep": torch.tensor([500], device="cuda:0")}
with torch.no_grad():
    styled = model(**inputs).sample
    model.delete_adapters("style")
    plain = model(**inputs).sample
print((styled - plain).shape)
print("SCENARIO OK")
