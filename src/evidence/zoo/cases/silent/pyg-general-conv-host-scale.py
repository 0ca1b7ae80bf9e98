import torch
from torch_geometric.nn import GeneralConv

conv = GeneralConv(6, 8, attention=True, attention_type="dot_product").to("cuda:0")
x, edges = torch.randn(4, 6, device="cuda:0"), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]], device="cuda:0")
conv(x, edges).sum().backward()
print(conv.scaler.device)
print("SCENARIO OK")
