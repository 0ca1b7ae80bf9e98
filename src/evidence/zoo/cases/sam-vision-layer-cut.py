import torch
from accelerate import dispatch_model, infer_auto_device_map
from transformers import SamVisionConfig, SamVisionModel

config = SamVisionConfig(
    hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=32, patch_size=8, mlp_dim=64,
    output_channels=8, window_size=2, global_attn_indexes=[1], use_abs_pos=False)
model = SamVisionModel(config).eval()
size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
device_map = infer_auto_device_map(model, max_memory={0: int(0.68 * size), 1: 2 * size},
                                   no_split_module_classes=list(model._no_split_modules))
model = dispatch_model(model, device_map, main_device=0)
with torch.no_grad():
    features = model(torch.randn(1, 3, 32, 32, device="cuda:0")).last_hidden_state
print(features.shape)
print("SCENARIO OK")
