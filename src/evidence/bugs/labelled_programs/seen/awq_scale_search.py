# cause: quantized-state-on-other-device
# guilty: act (self.stats[name], act.pow(alpha))
# line: 46
# repair: in ScaleSearch.search bring the statistics to the layer before the loop: act = act.to(weight.device) OR in ActivationStats._hook keep the mean on the device of the layer (drop .cpu())
"""Activation-aware weight quantisation of a model that is spread over two cards."""
import torch
import torch.nn as nn


def fake_quant(weight, bits=4, group=16):
    rows, cols = weight.shape
    w = weight.reshape(rows, cols // group, group)
    low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    step = ((high - low) / (2 ** bits - 1)).clamp(min=1e-6)
    return (((w - low) / step).round() * step + low).reshape(rows, cols)


class ActivationStats:
    """Mean absolute input of every linear layer, and a few rows of input for the search."""

    def __init__(self, layers, keep=32):
        self.keep, self.stats, self.rows, self.seen = keep, {}, {}, {}
        self.handles = [m.register_forward_hook(self._hook(n)) for n, m in layers.items()]

    def _hook(self, name):
        def hook(module, args, output):
            x = args[0].detach().flatten(0, -2)
            mean = x.abs().mean(0).cpu()
            n = self.seen.get(name, 0)
            self.stats[name] = mean if n == 0 else (self.stats[name] * n + mean) / (n + 1)
            self.rows.setdefault(name, x[: self.keep])
            self.seen[name] = n + 1
        return hook

    def close(self):
        for handle in self.handles:
            handle.remove()


class ScaleSearch:
    def __init__(self, bits=4, grid=8):
        self.bits, self.grid = bits, grid

    def candidate(self, act, weight, alpha):
        peak = weight.abs().amax(0).clamp(min=1e-4)
        scale = act.pow(alpha) / peak.pow(1 - alpha)
        return (scale / (scale.max() * scale.min()).sqrt()).clamp(min=1e-4)

    @torch.no_grad()
    def search(self, linear, act, rows):
        weight = linear.weight
        want = rows @ weight.t()
        best, best_error = None, float("inf")
        for i in range(self.grid):
            scale = self.candidate(act, weight, i / self.grid)
            got = (rows / scale) @ fake_quant(weight * scale, self.bits).t()
            error = (got - want).pow(2).mean().item()
            if error < best_error:
                best, best_error = scale, error
        linear.weight.data = fake_quant(weight * best, self.bits) / best
        return best_error


class Quantizer:
    def __init__(self, model, bits=4):
        self.model, self.search = model, ScaleSearch(bits)
        self.layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}

    @torch.no_grad()
    def run(self, batches):
        stats = ActivationStats(self.layers)
        for batch in batches:
            self.model(batch)
        stats.close()
        return {n: self.search.search(m, stats.stats[n], stats.rows[n]) for n, m in self.layers.items()}


class SpreadMLP(nn.Module):
    def __init__(self, dim=32, depth=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = [cards[i * len(cards) // depth] for i in range(depth)]
        mlp = lambda: nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))
        self.blocks = nn.ModuleList(mlp().to(c) for c in self.cards)

    def forward(self, x):
        for block, card in zip(self.blocks, self.cards):
            x = x.to(card)
            x = x + block(x)
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    report = Quantizer(SpreadMLP()).run([torch.randn(4, 10, 32) for _ in range(3)])
    for name, error in report.items():
        print(name, f"{error:.5f}")
