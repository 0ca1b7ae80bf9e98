# cause: numpy-of-gpu-tensor
# guilty: values (features, self.rows)
# line: 69
# repair: copy to the host before NumPy: values.detach().cpu().numpy() in LayerReport.summarise OR store out.detach().cpu() in the recorder's hook
"""Statistics of every layer's outputs for a network over two cards."""
import torch
import torch.nn.functional as F
from torch import nn


class ResidualMLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Chain(nn.Module):
    def __init__(self, features, width, depth, cards):
        super().__init__()
        self.cards = [cards[i * len(cards) // depth] for i in range(depth)]
        self.enter = nn.Linear(features, width).to(cards[0])
        self.blocks = nn.ModuleList(ResidualMLP(width).to(c) for c in self.cards)
        self.leave = nn.Linear(width, 2).to(cards[-1])

    def forward(self, x):
        x = self.enter(x.to(self.cards[0]))
        for block, card in zip(self.blocks, self.cards):
            x = block(x.to(card))
        return self.leave(x)


class Recorder:
    """Collects detached outputs of the named modules while it is open."""

    def __init__(self, model, kinds):
        self.rows = {}
        self.handles = []
        self.chosen = [(n, m) for n, m in model.named_modules() if isinstance(m, kinds)]

    def __enter__(self):
        for name, module in self.chosen:
            self.handles.append(module.register_forward_hook(self.hook(name)))
        return self

    def hook(self, name):
        def save(module, args, out):
            self.rows.setdefault(name, []).append(out.detach())
        return save

    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


class LayerReport:
    def __init__(self, recorder):
        self.recorder = recorder

    def summarise(self):
        lines = []
        for name, parts in self.recorder.rows.items():
            values = torch.cat(parts)
            array = values.flatten(1).numpy()
            lines.append((name, float(array.mean()), float(array.std()), float(abs(array).max())))
        return lines

    def show(self):
        for name, mean, std, top in self.summarise():
            print(f"{name:12s} mean {mean:+.3f} std {std:.3f} max {top:.3f}")


def calibrate(model, batches):
    model.eval()
    with torch.no_grad(), Recorder(model, ResidualMLP) as recorder:
        for _ in range(batches):
            model(torch.randn(8, 10))
    return LayerReport(recorder)


if __name__ == "__main__":
    torch.manual_seed(0)
    calibrate(Chain(10, 16, 4, ["cuda:0", "cuda:1"]), batches=3).show()
