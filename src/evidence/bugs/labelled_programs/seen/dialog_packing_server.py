# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: blocked (segment_mask(lengths), segment mask)
# line: 32
# repair: in segment_mask build the segments on the device of the caller (pass device=scores.device instead of torch.device("cuda"), which is the current card cuda:0) OR blocked.to(scores.device)
"""Dialog turns packed into one row; each turn may attend to itself only. One engine per card."""
import torch
import torch.nn as nn

DEVICE = torch.device("cuda")


def segment_mask(lengths, device=DEVICE):
    """True where attention is blocked: other turn, or later position."""
    turn = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(device)
    same = turn[:, None] == turn[None, :]
    causal = torch.ones_like(same).tril()
    return ~(same & causal)


class PackedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        n, d = x.shape
        q, k, v = self.qkv(x).view(n, 3, self.heads, -1).permute(1, 2, 0, 3)
        scores = q @ k.transpose(1, 2) / (d // self.heads) ** 0.5
        blocked = segment_mask(lengths)
        scores = scores.masked_fill(blocked, float("-inf"))
        return x + self.out((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, d))


class Engine:
    def __init__(self, device, dim=32, layers=2):
        self.device = torch.device(device)
        self.embed = nn.Embedding(50, dim).to(self.device)
        self.layers = nn.ModuleList(PackedAttention(dim, 4) for _ in range(layers)).to(self.device)

    @torch.no_grad()
    def encode(self, turns):
        lengths = [len(t) for t in turns]
        x = self.embed(torch.tensor(sum(turns, []), device=self.device))
        for layer in self.layers:
            x = layer(x, lengths)
        return [part.mean(0).cpu() for part in x.split(lengths)]


class Server:
    def __init__(self, devices):
        self.engines = [Engine(d) for d in devices]
        self.turn = 0

    def __call__(self, turns):
        engine = self.engines[self.turn % len(self.engines)]
        self.turn += 1
        return engine.encode(turns)


if __name__ == "__main__":
    torch.manual_seed(0)
    server = Server(["cuda:0", "cuda:1"])
    for request in ([[1, 2, 3], [4, 5]], [[6], [7, 8, 9, 10]]):
        print([round(v.norm().item(), 3) for v in server(request)])
