# cause: optimizer-state-on-other-device
import copy
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
model(torch.zeros(1, 3, 8, 8))
average = {k: v.clone() for k, v in model.state_dict().items()}
device = torch.device("cuda:1")
model = model.to(device)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(2, 3, 8, 8).to(device)
    y = torch.tensor([0, 1]).to(device)
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            average[name] = 0.9 * average[name] + 0.1 * value
