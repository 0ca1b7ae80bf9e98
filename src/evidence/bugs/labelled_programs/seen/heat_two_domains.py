# cause: cross-device-operands
# guilty: left[-1:]
"""Explicit heat equation on a bar, the two halves of the bar on two cards."""
import torch


def laplace(padded):
    return padded[2:] - 2 * padded[1:-1] + padded[:-2]


def wall(value, like):
    return like.new_full((1,), value)


def exchange(left, right):
    """Pad each half with the boundary cell of its neighbour."""
    padded_left = torch.cat([wall(1.0, left), left, right[:1].to(left.device)])
    padded_right = torch.cat([left[-1:], right, wall(0.0, right)])
    return padded_left, padded_right


def gaussian_bump(cells, centre, device):
    grid = torch.linspace(0, 1, cells, device=device)
    return torch.exp(-((grid - centre) ** 2) / 0.01)


def simulate(cells=64, steps=20, alpha=0.2):
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    left = gaussian_bump(cells // 2, 0.7, first)
    right = gaussian_bump(cells // 2, 0.2, second)
    diffusivity = torch.tensor(alpha)
    trace = []
    for step in range(steps):
        padded_left, padded_right = exchange(left, right)
        left = left + diffusivity * laplace(padded_left)
        right = right + diffusivity * laplace(padded_right)
        if step % 5 == 0:
            trace.append(torch.cat([left.cpu(), right.cpu()]))
    return torch.stack(trace)


if __name__ == "__main__":
    history = simulate()
    energy = history.sum(dim=1)
    print([round(float(e), 4) for e in energy])
