import torch
import piq

x = torch.rand(2, 3, 64, 64, device="cuda:1")
y = (x + 0.1 * torch.randn_like(x)).clamp(0, 1)
print(piq.DSSLoss(data_range=1.0)(x, y))
print("SCENARIO OK")
