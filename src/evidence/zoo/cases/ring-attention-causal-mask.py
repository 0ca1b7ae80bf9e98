import torch
from ring_attention_pytorch import default_attention

queries, keys, values = (torch.randn(1, 6, 2, 8, device="cuda:0") for _ in range(3))
out = default_attention(queries, keys, values, causal=True)
print(out.shape)
print("SCENARIO OK")
