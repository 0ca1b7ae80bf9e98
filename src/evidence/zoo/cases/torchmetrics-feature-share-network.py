import torch
from torchmetrics.image.fid import FrechetInceptionDistance
from torchmetrics.image.kid import KernelInceptionDistance
from torchmetrics.wrappers import FeatureShare


class Features(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(3 * 16, 8)

    def forward(self, images):
        return self.project(torch.nn.functional.adaptive_avg_pool2d(images.float(), 4).flatten(1))


shared = FeatureShare([FrechetInceptionDistance(feature=Features()),
                       KernelInceptionDistance(feature=Features(), subset_size=4)]).to("cuda:0")
for real in (True, False):
    images = torch.randint(0, 255, (6, 3, 32, 32), dtype=torch.uint8, device="cuda:0")
    shared.update(images, real=real)
print(shared.compute().keys())
print("SCENARIO OK")
