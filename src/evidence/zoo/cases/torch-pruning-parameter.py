import torch
import torch_pruning as tp


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 8)
        self.scale = torch.nn.Parameter(torch.ones(8))
        self.outer = torch.nn.Linear(8, 2)

    def forward(self, inputs):
        return self.outer(self.inner(inputs) * self.scale)


device = torch.device("cuda:0")
model = Scaled().to(device)
tp.prune_linear_out_channels(model.inner, idxs=[0, 3])
tp.prune_parameter_out_channels(model.scale, idxs=[0, 3])
tp.prune_linear_in_channels(model.outer, idxs=[0, 3])
print(model(torch.randn(3, 4, device=device)))
print("SCENARIO OK")
