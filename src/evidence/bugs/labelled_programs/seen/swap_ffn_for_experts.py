# cause: module-left-on-other-device|block-split-across-devices
# guilty: self.gate.weight (self.gate, gate)
"""Turn the feed-forward parts of a dispatched model into small expert layers."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SplitExperts(nn.Module):
    """Cuts one wide feed-forward into experts and learns a gate over them."""

    def __init__(self, dense, experts=4):
        super().__init__()
        hidden, dim = dense.up.weight.shape
        self.gate = nn.Linear(dim, experts)
        self.up = nn.Parameter(dense.up.weight.detach().view(experts, hidden // experts, dim).clone())
        self.down = nn.Parameter(dense.down.weight.detach().t().reshape(experts, hidden // experts, dim).clone())

    def forward(self, x):
        route = F.linear(x, self.gate.weight, self.gate.bias).softmax(-1)
        h = F.gelu(torch.einsum("btd,ehd->bteh", x, self.up))
        y = torch.einsum("bteh,ehd->bted", h, self.down)
        return (y * route.unsqueeze(-1)).sum(2)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ffn = FeedForward(dim)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ffn(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, vocab=100, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def load(depth):
    device_map = {"embed": 0, "head": 1}
    device_map.update({f"blocks.{i}": int(i >= depth // 2) for i in range(depth)})
    return dispatch_model(Encoder(depth=depth), device_map=device_map)


def replace_feedforward(model, experts):
    first = next(model.parameters()).device
    for name, module in list(model.named_modules()):
        if name.endswith(".ffn"):
            parent = model.get_submodule(name.rsplit(".", 1)[0])
            parent.ffn = SplitExperts(module, experts).to(first)
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    model = replace_feedforward(load(4), experts=4)
    with torch.no_grad():
        print(model(torch.randint(0, 100, (2, 12))))
