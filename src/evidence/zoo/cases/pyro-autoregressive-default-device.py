import pyro.distributions as dist
import torch
from pyro.distributions.transforms import affine_autoregressive

torch.set_default_device("cuda:0")
flow = affine_autoregressive(4, hidden_dims=[8]).to("cuda:0")
base = dist.Normal(torch.zeros(4, device="cuda:0"), torch.ones(4, device="cuda:0"))
print(dist.TransformedDistribution(base, [flow]).sample((3,)).shape)
print("SCENARIO OK")
