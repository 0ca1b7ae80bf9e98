import torch
from botorch.models.pairwise_gp import PairwiseGP

points = torch.rand(6, 2, device="cuda:0", dtype=torch.double)
comparisons = torch.tensor([[0, 1], [2, 3], [4, 5], [1, 2]], device="cuda:0")
model = PairwiseGP(points, comparisons)
with torch.no_grad():
    print(model.posterior(torch.rand(3, 2, device="cuda:0", dtype=torch.double)).mean.shape)
print("SCENARIO OK")
