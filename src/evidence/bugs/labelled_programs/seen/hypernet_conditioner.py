# cause: module-left-on-other-device|tensor-created-on-wrong-device
# guilty: w (weight, weights, b)
# line: 36
# repair: in TargetMLP.forward move w and b to x.device (w.to(x.device), b.to(x.device)) OR in HyperField.forward move the generated pairs to the device of coords
"""A hypernetwork on the second card writes the weights of a small field on the first."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HyperNetwork(nn.Module):
    def __init__(self, code_dim, shapes, hidden=64):
        super().__init__()
        self.shapes = shapes
        self.body = nn.Sequential(nn.Linear(code_dim, hidden), nn.SiLU())
        self.heads = nn.ModuleList(nn.Linear(hidden, o * i + o) for o, i in shapes)

    def forward(self, code):
        h = self.body(code)
        pairs = []
        for head, (o, i) in zip(self.heads, self.shapes):
            flat = head(h)
            pairs.append((flat[:o * i].view(o, i) * i ** -0.5, flat[o * i:]))
        return pairs


class TargetMLP:
    """Has no weights of its own."""

    def __init__(self, activation=torch.sin):
        self.activation = activation

    def __call__(self, x, weights):
        last = len(weights) - 1
        for k, (w, b) in enumerate(weights):
            x = F.linear(x, w, b)
            if k < last:
                x = self.activation(x)
        return x


class HyperField(nn.Module):
    def __init__(self, n_shapes, code_dim=16):
        super().__init__()
        self.codes = nn.Embedding(n_shapes, code_dim)
        self.hyper = HyperNetwork(code_dim, [(24, 2), (24, 24), (1, 24)])
        self.target = TargetMLP()
        self.scale = nn.Parameter(torch.ones(2))

    def place(self, small, big):
        self.codes.to(small)
        self.scale.data = self.scale.data.to(small)
        self.hyper.to(big)
        self.small, self.big = small, big
        return self

    def forward(self, index, coords):
        code = self.codes(index).to(self.big)
        weights = self.hyper(code)
        return self.target(coords * self.scale, weights)


def circle(coords, radius):
    return (coords.norm(dim=-1, keepdim=True) - radius)


if __name__ == "__main__":
    torch.manual_seed(0)
    field = HyperField(n_shapes=3).place("cuda:0", "cuda:1")
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)
    for step in range(6):
        shape = torch.tensor(step % 3, device="cuda:0")
        xy = torch.rand(200, 2, device="cuda:0") * 2 - 1
        loss = F.mse_loss(field(shape, xy), circle(xy, 0.2 + 0.2 * (step % 3)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
