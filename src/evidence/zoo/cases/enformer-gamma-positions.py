import torch
from enformer_pytorch.enformer_pytorch import Attention

attention = Attention(
    24, heads=2, dim_key=8, dim_value=12, dropout=0.0, pos_dropout=0.0, num_rel_pos_features=12
).to("cuda:0")
with torch.no_grad():
    out = attention(torch.randn(1, 16, 24, device="cuda:0"))
print(out.shape)
print("SCENARIO OK")
