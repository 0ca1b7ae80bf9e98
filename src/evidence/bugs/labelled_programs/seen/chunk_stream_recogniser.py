# cause: cache-or-beam-state-on-wrong-device
# guilty: cache (caches[i], self.caches)
# line: 19
# repair: in StreamingEncoder.new_stream allocate each left context on its layer's device: torch.zeros(..., device=layer.conv.weight.device) OR in CausalConv.forward: cache.to(x.device) before the cat
"""Chunk-wise speech recogniser; convolution layers keep their left context between chunks."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalConv(nn.Module):
    def __init__(self, dim, kernel):
        super().__init__()
        self.context = kernel - 1
        self.conv = nn.Conv1d(dim, dim, kernel, groups=dim)
        self.mix = nn.Conv1d(dim, dim, 1)

    def forward(self, x, cache):
        wide = torch.cat([cache, x], dim=-1)
        y = x + self.mix(F.silu(self.conv(wide)))
        return y, wide[..., -self.context:].detach()


class StreamingEncoder(nn.Module):
    def __init__(self, mels=20, dim=32, depth=4, kernel=5):
        super().__init__()
        self.proj = nn.Conv1d(mels, dim, 1)
        self.layers = nn.ModuleList(CausalConv(dim, kernel) for _ in range(depth))
        self.dim = dim

    def spread(self, devices):
        self.devices = [devices[i * len(devices) // len(self.layers)] for i in range(len(self.layers))]
        self.proj.to(devices[0])
        for layer, device in zip(self.layers, self.devices):
            layer.to(device)
        return self

    def new_stream(self, batch):
        like = next(self.parameters())
        return [like.new_zeros(batch, self.dim, layer.context) for layer in self.layers]

    def forward(self, chunk, caches):
        x = self.proj(chunk)
        fresh = []
        for layer, device, cache in zip(self.layers, self.devices, caches):
            x, kept = layer(x.to(device), cache)
            fresh.append(kept)
        return x, fresh


class GreedyCTC:
    def __init__(self, blank=0):
        self.blank, self.last = blank, blank

    def push(self, logits):
        out = []
        for token in logits.argmax(1)[0].tolist():
            if token != self.blank and token != self.last:
                out.append(token)
            self.last = token
        return out


class Recogniser:
    def __init__(self, devices=("cuda:0", "cuda:1"), vocab=30):
        self.devices = devices
        self.encoder = StreamingEncoder().spread(devices).eval()
        self.head = nn.Conv1d(32, vocab, 1).to(devices[-1])

    def open(self):
        self.caches = self.encoder.new_stream(1)
        self.decoder = GreedyCTC()

    @torch.no_grad()
    def feed(self, chunk):
        hidden, self.caches = self.encoder(chunk.to(self.devices[0]), self.caches)
        return self.decoder.push(self.head(hidden))


if __name__ == "__main__":
    torch.manual_seed(0)
    asr = Recogniser()
    asr.open()
    for _ in range(3):
        print(asr.feed(torch.randn(1, 20, 16)))
