# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: indices
# after: pytorch/executorch#19174
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn

@dataclass
class ModelArgs:
    dim: int = 32
    n_heads: int = 4
    n_layers: int = 2
    vocab: int = 48
    max_seq: int = 32
    max_batch: int = 2

class KVCache(nn.Module):
    def __init__(self, args):
        super().__init__()
        shape = (args.max_batch, args.n_heads, args.max_seq, args.dim // args.n_heads)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)
    def update(self, input_pos, k_val, v_val):
        start_pos, seq_length = input_pos[0].item(), k_val.size(2)
        indices = torch.arange(seq_length) + start_pos
        self.k_cache.index_copy_(2, indices, k_val)
        self.v_cache.index_copy_(2, indices, v_val)
        end = start_pos + seq_length
        return self.k_cache[:, :, :end], self.v_cache[:, :, :end]

class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_heads = args.n_heads
        self.wqkv, self.wo = nn.Linear(args.dim, 3 * args.dim), nn.Linear(args.dim, args.dim)
        self.kv_cache = KVCache(args)
    def forward(self, x, input_pos):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        k, v = self.kv_cache.update(input_pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        return self.wo(y.transpose(1, 2).flatten(2))

class Transformer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.emb = nn.Embedding(args.vocab, args.dim)
        self.layers = nn.ModuleList([Attention(args) for _ in range(args.n_layers)])
        self.output = nn.Linear(args.dim, args.vocab)
    def forward(self, tokens, input_pos):
        h = self.emb(tokens)
        for layer in self.layers:
            h = h + layer(h, input_pos)
        return self.output(h[:, -1])

class EagerRunner:
    def __init__(self, args, device):
        self.device = device
        self.model = Transformer(args).eval().to(device)
    @torch.no_grad()
    def generate(self, prompt, n):
        tokens, pos, out = prompt.to(self.device), 0, []
        for _ in range(n):
            logits = self.model(tokens, torch.tensor([pos], device=self.device))
            pos += tokens.shape[1]
            tokens = logits.argmax(-1, keepdim=True)
            out.append(tokens)
        return torch.cat(out, dim=1)

if __name__ == "__main__":
    print(EagerRunner(ModelArgs(), "cuda").generate(torch.randint(0, 48, (2, 6)), 5))
