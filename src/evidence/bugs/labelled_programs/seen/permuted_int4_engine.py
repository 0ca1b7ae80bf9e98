# cause: quantized-state-on-other-device|tensor-created-on-wrong-device
# guilty: self.order (order)
# line: 43
# repair: register the order as a (non-persistent) buffer in post_init (self.register_buffer("order", ..., persistent=False)) so that it moves with the layer OR call post_init after spread() OR index with self.order.to(x.device)
"""Group-wise int4 layers with activation order, packed on one card and then spread over two for serving."""
import torch
from torch import nn


class PackedLinear(nn.Module):
    def __init__(self, in_features, out_features, group=16):
        super().__init__()
        self.in_features, self.out_features, self.group = in_features, out_features, group
        groups = in_features // group
        self.register_buffer("levels", torch.zeros(in_features, out_features, dtype=torch.int8))
        self.register_buffer("scales", torch.ones(groups, out_features))
        self.register_buffer("group_of", torch.arange(in_features) // group)
        self.register_buffer("bias", torch.zeros(out_features))
        self.order = None

    @torch.no_grad()
    def pack(self, linear, importance):
        ranked = importance.argsort(descending=True)
        group_of = torch.empty_like(self.group_of)
        group_of[ranked] = torch.arange(self.in_features, device=ranked.device) // self.group
        weight = linear.weight.t()
        for g in range(len(self.scales)):
            rows = group_of == g
            scale = weight[rows].abs().amax(0).clamp(min=1e-8) / 7
            self.scales[g] = scale
            self.levels[rows] = (weight[rows] / scale).round().clamp(-8, 7).to(torch.int8)
        self.group_of.copy_(group_of)
        if linear.bias is not None:
            self.bias.copy_(linear.bias)
        return self

    def post_init(self):
        """Sorts the rows by group once, so that the forward reads each scale in one stretch."""
        self.order = torch.argsort(self.group_of, stable=True)
        self.levels = self.levels[self.order].contiguous()

    def forward(self, x):
        x = x[..., self.order]
        w = self.levels.to(x.dtype).view(-1, self.group, self.out_features) * self.scales[:, None]
        return x @ w.flatten(0, 1) + self.bias


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, h):
        return h + self.down(torch.relu(self.up(self.norm(h))))


class Ranker(nn.Module):
    def __init__(self, dim=32, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x.to(block.norm.weight.device))
        return self.score(x.to(self.score.weight.device)).squeeze(-1)


def quantise(model, sample):
    seen = {}
    handles = [
        m.register_forward_pre_hook(lambda m, args: seen.__setitem__(m, args[0].pow(2).mean(0)))
        for m in model.modules()
        if isinstance(m, nn.Linear)
    ]
    with torch.no_grad():
        model(sample)
    for handle in handles:
        handle.remove()
    for block in model.blocks:
        for name in ("up", "down"):
            linear = getattr(block, name)
            packed = PackedLinear(linear.in_features, linear.out_features).to(linear.weight.device)
            packed.pack(linear, seen[linear]).post_init()
            setattr(block, name, packed)
    return model


def spread(model, cards):
    share = -(-len(model.blocks) // len(cards))
    for i, block in enumerate(model.blocks):
        block.to(cards[i // share])
    model.score.to(cards[-1])
    return model


@torch.no_grad()
def main():
    torch.manual_seed(0)
    cards = ["cuda:0", "cuda:1"]
    model = Ranker().to(cards[0]).eval()
    sample = torch.randn(64, 32, device=cards[0])
    exact = model(sample).cpu()
    model = quantise(model, sample)
    print("packed, one card", (model(sample).cpu() - exact).abs().mean().item())
    model = spread(model, cards)
    for _ in range(3):
        scores = model(torch.randn(5, 32, device=cards[0]))
        print([round(s, 3) for s in scores.tolist()])


if __name__ == "__main__":
    main()
