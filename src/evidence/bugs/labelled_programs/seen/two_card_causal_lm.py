# cause: cache-or-beam-state-on-wrong-device
# guilty: k_out (self.key_cache[layer_idx])
# after: huggingface/transformers#32624, huggingface/transformers#33303
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn

class FixedCache:
    def __init__(self, layers, batch, heads, max_len, head_dim, device):
        shape = (batch, heads, max_len, head_dim)
        self.key_cache = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.value_cache = [torch.zeros(shape, device=device) for _ in range(layers)]
    def update(self, key_states, value_states, layer_idx, cache_position):
        k_out, v_out = self.key_cache[layer_idx], self.value_cache[layer_idx]
        k_out.index_copy_(2, cache_position, key_states)
        v_out.index_copy_(2, cache_position, value_states)
        return k_out, v_out

class SelfAttention(nn.Module):
    def __init__(self, dim, heads, layer_idx):
        super().__init__()
        self.heads, self.layer_idx = heads, layer_idx
        self.qkv, self.o_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
    def forward(self, x, cache, cache_position):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        k, v = cache.update(k, v, self.layer_idx, cache_position)
        visible = torch.arange(k.shape[2], device=x.device)[None] <= cache_position[:, None]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.o_proj(out.transpose(1, 2).flatten(2))

class Layer(nn.Module):
    def __init__(self, dim, heads, idx):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(dim), SelfAttention(dim, heads, idx)
    def forward(self, x, cache, cache_position):
        return x + self.attn(self.norm(x), cache, cache_position)

class CausalLM(nn.Module):
    def __init__(self, vocab=40, dim=32, heads=4, layers=4):
        super().__init__()
        self.dims = (layers, heads, dim // heads)
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim, heads, i) for i in range(layers)])
        self.head = nn.Linear(dim, vocab)
    @property
    def device(self):
        return self.embed.weight.device
    def forward(self, ids, cache, cache_position):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, cache, cache_position)
        return self.head(x[:, -1])
    @torch.no_grad()
    def generate(self, ids, new_tokens, max_len=32):
        layers, heads, hd = self.dims
        cache = FixedCache(layers, ids.shape[0], heads, max_len, hd, device=self.device)
        ids = ids.to(self.device)
        position, step, out = torch.arange(ids.shape[1], device=self.device), ids, []
        for _ in range(new_tokens):
            step = self(step, cache, position).argmax(-1, keepdim=True).to(self.device)
            position = position[-1:] + 1
            out.append(step)
        return torch.cat(out, 1)

if __name__ == "__main__":
    lm = CausalLM()
    split = {"embed": "cuda:0", "layers.0": "cuda:0", "layers.1": "cuda:0",
             "layers.2": "cuda:1", "layers.3": "cuda:1", "head": "cuda:1"}
    print(dispatch_model(lm, split).generate(torch.randint(0, 40, (2, 5)), 4))
