import torch
from sbi.utils import BoxUniform

device = torch.device("cuda:1")
prior = BoxUniform(low=torch.zeros(3, device=device), high=torch.ones(3, device=device))
proposals = torch.rand(8, 3, device=device)
inside = torch.isfinite(prior.log_prob(proposals))
print(proposals[inside].mean(0))
print("SCENARIO OK")
