# cause: rope-table-on-wrong-device
# guilty: self.inv_freq (inv_freq, self.original)
# line: 38
# repair: move the kept table when it is put back: self.inv_freq = self.original.to(positions.device) in adapt() OR keep original as a non-persistent buffer so that model.to(device) takes it along OR recompute the frequencies on positions.device when the prompt is short again
"""A small decoder whose rotary frequencies are stretched for long prompts and set back for short ones."""
import torch
from torch import nn
from torch.nn import functional as F


class ElasticRotary(nn.Module):
    def __init__(self, head_dim, trained_len, base=10000.0):
        super().__init__()
        self.head_dim, self.trained_len, self.base = head_dim, trained_len, base
        inv_freq = self.frequencies(base)
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.original = inv_freq
        self.longest = trained_len

    def frequencies(self, base, device=None):
        index = torch.arange(0, self.head_dim, 2, device=device, dtype=torch.float)
        return base ** (-index / self.head_dim)

    def adapt(self, positions):
        length = int(positions.max()) + 1
        if length > self.longest:
            growth = 2.0 * length / self.trained_len - 1.0
            base = self.base * growth ** (self.head_dim / (self.head_dim - 2))
            self.inv_freq = self.frequencies(base, device=positions.device)
            self.longest = length
        elif length < self.trained_len < self.longest:
            self.inv_freq = self.original
            self.longest = self.trained_len

    @torch.no_grad()
    def forward(self, positions):
        self.adapt(positions)
        angle = positions[:, None].float() * self.inv_freq[None, :]
        angle = torch.cat([angle, angle], dim=-1)
        return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.feed = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, h, cos, sin):
        b, n, d = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).reshape(b, n, d))
        return h + self.feed(self.norm2(h))


class TinyDecoder(nn.Module):
    def __init__(self, vocab=128, dim=32, heads=4, depth=2, trained_len=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rotary = ElasticRotary(dim // heads, trained_len)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        h = self.embed(ids)
        cos, sin = self.rotary(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            h = layer(h, cos, sin)
        return self.norm(h) @ self.embed.weight.t()


class ChatServer:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = TinyDecoder().to(self.device).eval()

    @torch.inference_mode()
    def answer(self, prompt, new_tokens=4):
        ids = torch.tensor([prompt], device=self.device)
        for _ in range(new_tokens):
            ids = torch.cat([ids, self.model(ids)[:, -1:].argmax(-1)], dim=1)
        return ids[0, len(prompt) :].tolist()


def main():
    torch.manual_seed(0)
    server = ChatServer("cuda:1")
    requests = [list(range(1, 11)), list(range(1, 71)), list(range(20, 32))]
    for number, prompt in enumerate(requests):
        print(number, len(prompt), server.answer(prompt))


if __name__ == "__main__":
    main()
