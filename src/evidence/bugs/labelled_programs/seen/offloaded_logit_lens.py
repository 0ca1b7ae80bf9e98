# cause: offload-hook-bypassed
# guilty: norm.weight (self.model.norm.weight)
# line: 53
# repair: call the module, self.model.norm(hidden), instead of reading its weight, so that the offload hook brings the weight to the card
"""Logit lens over a decoder whose weights are kept on the host by accelerate."""
import torch
import torch.nn as nn
from accelerate import cpu_offload


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(dim) + 0.5), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.rnn, self.out = RMSNorm(dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        mixed = self.norm(x).cumsum(1) / torch.arange(1, x.size(1) + 1, device=x.device)[:, None]
        return x + self.out(torch.relu(self.rnn(mixed)))


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=24, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm, self.lm_head = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


class LogitLens:
    def __init__(self, model):
        self.model, self.states = model, {}
        for i, block in enumerate(model.blocks):
            block.register_forward_hook(lambda m, a, out, i=i: self.states.__setitem__(i, out))

    def decode(self, hidden):
        norm = self.model.norm
        hidden = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + norm.eps)
        scaled = hidden * norm.weight
        return self.model.lm_head(scaled)

    @torch.no_grad()
    def table(self, ids):
        final = self.model(ids)
        rows = {i: self.decode(h)[0].argmax(-1).tolist() for i, h in sorted(self.states.items())}
        rows["final"] = final[0].argmax(-1).tolist()
        return rows


def load(device):
    model = Decoder().eval()
    return cpu_offload(model, execution_device=torch.device(device))


if __name__ == "__main__":
    torch.manual_seed(0)
    lens = LogitLens(load("cuda:0"))
    ids = torch.tensor([[4, 8, 15, 16, 23, 42]], device="cuda:0")
    for layer, tokens in lens.table(ids).items():
        print(layer, tokens)
