import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform

device = torch.device("cuda:1")
flow = Flow(MaskedAffineAutoregressiveTransform(features=3, hidden_features=8), StandardNormal([3])).to(device)
with torch.no_grad():
    samples = flow.sample(5)
print(samples.mean(0))
print("SCENARIO OK")
