import torch
from captum.attr import FeatureAblation


class Split(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8).to("cuda:0")
        self.last = torch.nn.Linear(8, 3).to("cuda:1")

    def forward(self, x):
        return self.last(self.first(x).relu().to("cuda:1"))


ablation = FeatureAblation(Split())
print(ablation.attribute(torch.randn(2, 4, device="cuda:0"), target=1).shape)
print("SCENARIO OK")
