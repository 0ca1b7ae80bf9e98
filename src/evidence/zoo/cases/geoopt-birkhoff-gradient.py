import geoopt
import torch

manifold = geoopt.BirkhoffPolytope()
start = manifold.projx(torch.rand(5, 5, device="cuda:0") + 0.1)
matrix = geoopt.ManifoldParameter(start, manifold=manifold)
optimizer = geoopt.optim.RiemannianSGD([matrix], lr=0.01)
target = torch.eye(5, device="cuda:0")
for _ in range(2):
    optimizer.zero_grad()
    (matrix - target).square().sum().backward()
    optimizer.step()
print("SCENARIO OK")
