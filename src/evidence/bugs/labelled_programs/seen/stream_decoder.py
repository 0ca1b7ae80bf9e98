# cause: cache-or-beam-state-on-wrong-device
# guilty: k (k.transpose(-1, -2) or self.keys[layer] or store.keys)
"""Token-by-token decoding with a decoder whose layers live on two GPUs."""
import torch
from torch import nn


class KVStore:
    def __init__(self, layers, batch, heads, max_len, dim, device):
        shape = (batch, heads, max_len, dim)
        self.keys = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.values = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.filled = 0

    def put(self, layer, k, v):
        end = self.filled + k.size(2)
        self.keys[layer][:, :, self.filled : end] = k
        self.values[layer][:, :, self.filled : end] = v
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]


class Layer(nn.Module):
    def __init__(self, index, dim, heads):
        super().__init__()
        self.index, self.heads = index, heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, store):
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        k, v = store.put(self.index, k, v)
        weights = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(b, n, d)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, heads=4, layers=4, devices=("cuda:0", "cuda:1")):
        super().__init__()
        per = layers // len(devices)
        self.homes = [devices[i // per] for i in range(layers)]
        self.embed = nn.Embedding(vocab, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(i, dim, heads).to(self.homes[i]) for i in range(layers))
        self.head = nn.Linear(dim, vocab).to(devices[-1])
        self.heads = heads

    @torch.no_grad()
    def generate(self, prompt, new_tokens):
        ids = prompt.to(self.embed.weight.device)
        store = KVStore(len(self.layers), ids.size(0), self.heads, ids.size(1) + new_tokens,
                        self.embed.embedding_dim // self.heads, ids.device)
        current = ids
        for _ in range(new_tokens):
            h = self.embed(current)
            for home, layer in zip(self.homes, self.layers):
                h = layer(h.to(home), store)
            store.filled += current.size(1)
            current = self.head(h[:, -1]).argmax(-1, keepdim=True).to(ids.device)
            ids = torch.cat([ids, current], dim=1)
        return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Decoder().eval()
    print(model.generate(torch.randint(50, (2, 1)), 6).tolist())
