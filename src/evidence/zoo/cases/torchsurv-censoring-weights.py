import torch
from torchsurv.stats.ipcw import get_ipcw

device = torch.device("cuda:0")
event = torch.tensor([True, False, True, True, False, True, False, True], device=device)
time = torch.tensor([1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 7.0], device=device)
weights = get_ipcw(event, time)
print(weights.sum())
print("SCENARIO OK")
