# cause: adapter-weights-on-other-device
# guilty: self.ia3
import torch
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(d, hidden), nn.Linear(hidden, d)
        self.ia3 = None

    def forward(self, x):
        h = torch.relu(self.up(x))
        if self.ia3 is not None:
            h = torch.mul(h, self.ia3)
        return x + self.down(h)


class Stack(nn.Module):
    def __init__(self, d=16, hidden=48, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(FeedForward(d, hidden) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.to(layer.up.weight.device))
        return x


def spread(stack):
    for i, layer in enumerate(stack.layers):
        layer.to(f"cuda:{0 if i < len(stack.layers) / 2 else 1}")
    return stack


def attach_ia3(stack, state, device):
    """Put the learned (IA)^3 vectors of a task into the frozen stack."""
    for i, layer in enumerate(stack.layers):
        layer.ia3 = nn.Parameter(state[f"layers.{i}.ia3"].to(device), requires_grad=False)


def fake_adapter(stack):
    g = torch.Generator().manual_seed(0)
    return {
        f"layers.{i}.ia3": 1 + 0.1 * torch.randn(l.up.out_features, generator=g) for i, l in enumerate(stack.layers)
    }


if __name__ == "__main__":
    stack = spread(Stack().eval().requires_grad_(False))
    main_device = next(stack.parameters()).device
    attach_ia3(stack, fake_adapter(stack), main_device)
    print(stack(torch.randn(3, 16)).norm())
