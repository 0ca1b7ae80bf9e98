import torch
from accelerate import dispatch_model, infer_auto_device_map
from diffusers import UNet2DConditionModel

model = UNet2DConditionModel(
    sample_size=16, in_channels=4, out_channels=4, layers_per_block=2, block_out_channels=(8, 16),
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=8, attention_head_dim=4,
    norm_num_groups=4).eval()
size = sum(p.numel() * p.element_size() for p in model.parameters())
dm = infer_auto_device_map(model, max_memory={0: int(0.85 * size), 1: 2 * size},
                           no_split_module_classes=model._no_split_modules)
model = dispatch_model(model, dm, main_device=0)
with torch.no_grad():
    out = model(torch.randn(1, 4, 16, 16, device="cuda:0"), torch.tensor([7], device="cuda:0"),
                encoder_hidden_states=torch.randn(1, 5, 8, device="cuda:0")).sample
print(out.shape)
print("SCENARIO OK")
