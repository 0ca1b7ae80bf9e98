import torch
from torch_geometric_temporal.nn import GMAN

device = torch.device("cuda:0")
model = GMAN(L=1, K=2, d=2, num_his=3, bn_decay=0.1, steps_per_day=288, use_bias=True, mask=True).to(device)
traffic = torch.randn(2, 3, 5, device=device)
places = torch.randn(5, 4, device=device)
times = torch.stack([torch.randint(0, 7, (2, 5)), torch.randint(0, 288, (2, 5))], dim=-1).to(device)
forecast = model(traffic, places, times)
print(forecast.shape)
print("SCENARIO OK")
