# cause: tensor-created-on-wrong-device
# guilty: mean (std)
import torch
import torch.nn as nn

STATS = {
    "rgb": (torch.tensor([0.48, 0.45, 0.40]), torch.tensor([0.22, 0.22, 0.22])),
    "thermal": (torch.tensor([0.3]), torch.tensor([0.1])),
}


def normaliser(kind):
    mean, std = STATS[kind]

    def apply(x):
        return (x - mean[:, None, None]) / std[:, None, None]

    return apply


class Pipeline:
    def __init__(self, *stages):
        self.stages = stages

    def __call__(self, x):
        for s in self.stages:
            x = s(x)
        return x


torch.manual_seed(0)
device = torch.device("cuda:0")
backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(16, 2)).to(device)
pipe = Pipeline(lambda u: u.to(device), lambda u: u.float() / 255, normaliser("rgb"), backbone)
frames = torch.randint(0, 256, (4, 3, 10, 10), dtype=torch.uint8)
print(pipe(frames).softmax(-1).tolist())
