# cause: rope-table-on-wrong-device
# guilty: inv_freq (module.rotary_emb.inv_freq)
# after: NVIDIA/kvpress#241
import torch
import torch.nn.functional as F
from torch import nn
class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim), persistent=False)
    def forward(self, x, position_ids):
        freqs = position_ids[..., None].float() * self.inv_freq.to(x.device)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()
def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin
class Attention(nn.Module):
    def __init__(self, dim, heads, rotary_emb):
        super().__init__()
        self.heads, self.rotary_emb = heads, rotary_emb
        self.qkv, self.o_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
    def forward(self, x, cos, sin):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(2)), k, v
class Model(nn.Module):
    def __init__(self, devices, vocab=40, dim=32, heads=4, layers=4):
        super().__init__()
        self.devices = [devices[i * len(devices) // layers] for i in range(layers)]
        self.rotary_emb = Rotary(dim // heads).to(devices[0])
        self.embed = nn.Embedding(vocab, dim).to(devices[0])
        self.layers = nn.ModuleList()
        for device in self.devices:
            attn = Attention(dim, heads, None).to(device)
            attn.rotary_emb = self.rotary_emb
            self.layers.append(attn)
    def prefill(self, ids, press):
        x, cache = self.embed(ids.to(self.embed.weight.device)), []
        cos, sin = self.rotary_emb(x, torch.arange(ids.shape[1], device=x.device)[None, None])
        for layer, device in zip(self.layers, self.devices):
            x, cos, sin = x.to(device), cos.to(device), sin.to(device)
            y, k, v = layer(x, cos, sin)
            x = x + y
            cache.append(press.compress(layer, k, v))
        return x, cache
class KeyRerotationPress:
    def __init__(self, ratio):
        self.ratio = ratio
    def score(self, keys):
        return -keys.norm(dim=-1)
    @staticmethod
    def _rerotate_cos_sin(x, inv_freq, selected_positions):
        new = torch.arange(selected_positions.shape[-1], device=selected_positions.device)
        delta = (new - selected_positions).unsqueeze(-1).float()
        freqs = delta * inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)
    def compress(self, module, keys, values):
        kept = int(keys.shape[2] * (1 - self.ratio))
        index = self.score(keys).topk(kept, dim=-1).indices.sort(dim=-1).values
        cos, sin = self._rerotate_cos_sin(keys, module.rotary_emb.inv_freq, index)
        gather = index.unsqueeze(-1).expand(-1, -1, -1, keys.shape[-1])
        return rotate(keys.gather(2, gather), cos, sin), values.gather(2, gather)

if __name__ == "__main__":
    model = Model(["cuda:0", "cuda:1"])
    with torch.no_grad():
        _, cache = model.prefill(torch.randint(0, 40, (2, 12)), KeyRerotationPress(0.25))
    print([k.shape for k, _ in cache])
