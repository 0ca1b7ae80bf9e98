# cause: rope-table-on-wrong-device
# guilty: freqs_cis
import math
import torch
import torch.nn as nn


def precompute(dim, end, theta=1e4):
    f = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    f = torch.outer(torch.arange(end).float(), f)
    return torch.polar(torch.ones_like(f), f)


def apply_rotary(xq, xk, freqs_cis):
    q_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    k_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis.view(1, q_.size(1), 1, -1)
    return torch.view_as_real(q_ * freqs_cis).flatten(3), torch.view_as_real(k_ * freqs_cis).flatten(3)


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wqkv = nn.Linear(d, 3 * d, bias=False)
        self.wo = nn.Linear(d, d, bias=False)

    def forward(self, x, freqs_cis):
        b, t, d = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.h, -1).unbind(2)
        q, k = apply_rotary(q, k, freqs_cis)
        att = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.size(-1))
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", att.softmax(-1), v).reshape(b, t, d))


class Transformer(nn.Module):
    def __init__(self, vocab=60, d=32, h=4, n=4, max_len=64):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Attention(d, h) for _ in range(n))
        self.output = nn.Linear(d, vocab)
        self.register_buffer("freqs_cis", precompute(d // h, max_len), persistent=False)

    def parallelize(self):
        n = torch.cuda.device_count()
        self.to("cuda:0")
        for i, layer in enumerate(self.layers):
            layer.to(f"cuda:{i * n // len(self.layers)}")
        self.output.to(f"cuda:{n - 1}")
        return self

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        freqs = self.freqs_cis[: tokens.size(1)]
        for layer in self.layers:
            h = h.to(layer.wo.weight.device)
            h = h + layer(h, freqs)
        return self.output(h)


net = Transformer().parallelize().eval()
with torch.no_grad():
    print(net(torch.randint(0, 60, (1, 12)).cuda())[0, -1].argmax())
