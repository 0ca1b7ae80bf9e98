import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

rotary = RotaryEmbedding(dim=8)
queries = torch.randn(1, 2, 16, 32, device="cuda:0")
keys = torch.randn(1, 2, 16, 32, device="cuda:0")
frequencies = rotary(torch.arange(16), cache_key=16)[None, None]
queries = apply_rotary_emb(frequencies, queries)
keys = apply_rotary_emb(frequencies, keys)
print((queries @ keys.transpose(-1, -2)).shape)
print("SCENARIO OK")
