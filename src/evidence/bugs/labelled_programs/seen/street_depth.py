# cause: loss-or-label-on-other-device
# guilty: parts["depth"] (0.5 * parts["depth"])
"""Street scenes: one shared trunk, a segmentation head here and a depth head on the other card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Scene(nn.Module):
    def __init__(self, main, side, classes=8, width=16):
        super().__init__()
        self.main, self.side = main, side
        self.trunk = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()
        ).to(main)
        self.classes = nn.Conv2d(width, classes, 1).to(main)
        self.depth = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1), nn.Softplus()
        ).to(side)

    def forward(self, image):
        shared = self.trunk(image.to(self.main))
        return {"classes": self.classes(shared), "depth": self.depth(shared.to(self.side)).squeeze(1)}


def scale_free(guess, truth):
    gap = (guess + 1e-3).log() - truth.log()
    return gap.square().mean() - 0.5 * gap.mean().square()


def objective(out, truth):
    parts = {
        "classes": F.cross_entropy(out["classes"], truth["classes"].to(out["classes"].device)),
        "depth": scale_free(out["depth"], truth["depth"].to(out["depth"].device)),
    }
    total = parts["classes"] + 0.5 * parts["depth"]
    return total, {k: round(v.item(), 4) for k, v in parts.items()}


def scenes(steps, size=20):
    for _ in range(steps):
        image = torch.rand(3, 3, size, size)
        yield image, {
            "classes": torch.randint(8, (3, size, size)),
            "depth": 0.5 + 10 * torch.rand(3, size, size),
        }


def main():
    torch.manual_seed(25)
    net = Scene("cuda:0", "cuda:1")
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for image, truth in scenes(3):
        total, shown = objective(net(image), truth)
        opt.zero_grad()
        total.backward()
        opt.step()
        print(shown)


if __name__ == "__main__":
    main()
