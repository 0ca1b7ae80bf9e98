import torch
import torch_pruning as tp

device = torch.device("cuda:0")
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).to(device)
tp.prune_multihead_attention_out_channels(attention, idxs=[1, 6])
tokens = torch.randn(2, 5, 6, device=device)
mixed, _ = attention(tokens, tokens, tokens)
print(mixed.shape)
print("SCENARIO OK")
