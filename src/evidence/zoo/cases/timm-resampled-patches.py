import torch
from timm.layers import resample_patch_embed
from timm.models import VisionTransformer

model = VisionTransformer(img_size=16, patch_size=4, embed_dim=12, depth=1, num_heads=2, num_classes=5).to("cuda:0")
weight = resample_patch_embed(model.patch_embed.proj.weight.detach(), [8, 8])
larger = VisionTransformer(img_size=32, patch_size=8, embed_dim=12, depth=1, num_heads=2, num_classes=5).to("cuda:0")
state = {**model.state_dict(), "patch_embed.proj.weight": weight}
larger.load_state_dict(state)
print(larger(torch.randn(2, 3, 32, 32, device="cuda:0")).shape)
print("SCENARIO OK")
