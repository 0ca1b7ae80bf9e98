import torch
from captum.attr import ShapleyValueSampling


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8).to("cuda:0")
        self.second = torch.nn.Linear(8, 3).to("cuda:1")

    def forward(self, batch):
        return self.second(self.first(batch).relu().to("cuda:1"))


explainer = ShapleyValueSampling(Network().eval())
batch = torch.randn(2, 4, device="cuda:0")
print(explainer.attribute(batch, target=1, n_samples=2).shape)
print("SCENARIO OK")
