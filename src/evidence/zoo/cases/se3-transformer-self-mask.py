import torch
from se3_transformer_pytorch import SE3Transformer

model = SE3Transformer(dim=8, heads=2, depth=1, dim_head=4, num_degrees=2, valid_radius=10).to("cuda:0")
feats = torch.randn(1, 6, 8, device="cuda:0")
coors = torch.randn(1, 6, 3, device="cuda:0")
mask = torch.ones(1, 6, device="cuda:0").bool()
with torch.no_grad():
    out = model(feats, coors, mask)
print("SCENARIO OK")
