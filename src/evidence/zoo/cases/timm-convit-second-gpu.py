import torch
from timm.models.convit import ConViT

model = ConViT(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, local_up_to_layer=1,
               num_classes=5).to("cuda:1").eval()
with torch.no_grad():
    tokens = model.patch_embed(torch.randn(2, 3, 32, 32, device="cuda:1"))
    print(model.blocks[1].attn.get_attention_map(tokens))
print("SCENARIO OK")
