# cause: misleading-after-effect
# guilty: frame
import numpy as np
import torch
import torch.nn as nn


class Camera:
    def __init__(self, size=24, seed=0):
        self.rng = np.random.default_rng(seed)
        self.size = size

    def read(self):
        frame = self.rng.integers(0, 255, (self.size, self.size, 3), dtype=np.uint8)
        frame[4:12, 6:14] = 230
        return frame


class Normalise:
    def __init__(self, mean, std):
        self.mean, self.std = np.array(mean), np.array(std)

    def __call__(self, frame):
        return (frame / 255.0 - self.mean) / self.std


class ToDevice:
    def __init__(self, device):
        self.device = device

    def __call__(self, frame):
        return torch.from_numpy(frame).permute(2, 0, 1).unsqueeze(0).to(self.device)


class Detector(nn.Module):
    def __init__(self, anchors=2):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU())
        self.score = nn.Conv2d(24, anchors, 1)
        self.box = nn.Conv2d(24, 4 * anchors, 1)

    def forward(self, x):
        f = self.features(x)
        return self.score(f).sigmoid(), self.box(f).tanh()


class Tracker:
    def __init__(self, device):
        self.device = torch.device(device)
        self.net = Detector().to(self.device).eval()
        self.pre = [Normalise((0.48, 0.45, 0.41), (0.23, 0.22, 0.22)), ToDevice(self.device)]

    @torch.no_grad()
    def __call__(self, frame):
        for f in self.pre:
            frame = f(frame)
        score, box = self.net(frame)
        best = score.flatten().argmax()
        return score.flatten()[best].item(), box.flatten()[:4].tolist()


cam, track = Camera(), Tracker("cuda:0")
for _ in range(3):
    print(track(cam.read()))
