import os

os.environ["MPLBACKEND"] = "Agg"

import torch
from kan import KAN

model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, device="cuda:0", auto_save=False)
print(model(torch.rand(5, 2, device="cuda:0") * 2 - 1).shape)
print("SCENARIO OK")
