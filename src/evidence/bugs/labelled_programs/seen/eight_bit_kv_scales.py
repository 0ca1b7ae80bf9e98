# cause: quantized-state-on-other-device|cache-or-beam-state-on-wrong-device
# guilty: self.scale[layer] (scale)
# line: 27
# repair: allocate the scales per layer on the device of that layer in QuantisedKV.__init__ (devices[layer] as for the codes) OR use scale.to(q.device)
"""Decoder with an 8-bit key/value cache; the layers are shared out over two cards."""
import torch
import torch.nn as nn


class QuantisedKV:
    def __init__(self, devices, batch, length, dim):
        self.codes = [torch.zeros(2, batch, length, dim, dtype=torch.int8, device=d) for d in devices]
        self.scale = torch.ones(len(devices), 2, batch, length, 1, device=devices[0])
        self.filled = [0] * len(devices)

    def append(self, layer, k, v):
        pos = self.filled[layer]
        kv = torch.stack([k, v])
        amax = kv.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
        self.codes[layer][:, :, pos] = (kv / amax).round().to(torch.int8)
        self.scale[layer][:, :, pos] = amax
        self.filled[layer] = pos + 1

    def read(self, layer):
        n = self.filled[layer]
        q = self.codes[layer][:, :, :n].float()
        k, v = q * self.scale[layer][:, :, :n]
        return k, v


class Layer(nn.Module):
    def __init__(self, dim, index):
        super().__init__()
        self.index = index
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, cache):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        cache.append(self.index, k, v)
        keys, values = cache.read(self.index)
        att = torch.softmax((keys @ q.unsqueeze(-1)).squeeze(-1) / q.shape[-1] ** 0.5, -1)
        return x + self.out((att.unsqueeze(1) @ values).squeeze(1))


class Decoder(nn.Module):
    def __init__(self, vocab=64, dim=32, devices=("cuda:0", "cuda:0", "cuda:1", "cuda:1")):
        super().__init__()
        self.devices = devices
        self.embed = nn.Embedding(vocab, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(dim, i).to(d) for i, d in enumerate(devices))
        self.head = nn.Linear(dim, vocab).to(devices[-1])

    @torch.no_grad()
    def generate(self, start, steps):
        cache = QuantisedKV(self.devices, len(start), steps, self.embed.embedding_dim)
        token, out = start, []
        for _ in range(steps):
            x = self.embed(token.to(self.devices[0]))
            for layer, device in zip(self.layers, self.devices):
                x = layer(x.to(device), cache)
            token = self.head(x).argmax(-1)
            out.append(token.cpu())
        return torch.stack(out, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(Decoder().eval().generate(torch.tensor([3, 9]), 6).tolist())
