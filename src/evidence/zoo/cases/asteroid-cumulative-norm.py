import torch
from asteroid.masknn import norms

norm = norms.CumLN(4).to("cuda:0")
out = norm(torch.randn(2, 4, 10, device="cuda:0"))
out.sum().backward()
print(out.shape)
print("SCENARIO OK")
