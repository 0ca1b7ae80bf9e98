import torch
from captum.attr import FeatureAblation

model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).to("cuda:0")
groups = torch.tensor([[0, 0, 1, 1, 2, 2]])
ablation = FeatureAblation(model)
print(ablation.attribute(torch.randn(2, 6, device="cuda:0"), target=1, feature_mask=groups).shape)
print("SCENARIO OK")
