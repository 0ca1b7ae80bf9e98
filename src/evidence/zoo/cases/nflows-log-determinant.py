import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation

steps = []
for _ in range(2):
    steps.append(ReversePermutation(features=2))
    steps.append(MaskedAffineAutoregressiveTransform(features=2, hidden_features=4))
flow = Flow(CompositeTransform(steps), StandardNormal([2])).to("cuda:0")
points = torch.randn(16, 2, device="cuda:0")
loss = -flow.log_prob(points).mean()
loss.backward()
print(loss)
print("SCENARIO OK")
