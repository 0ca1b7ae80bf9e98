# cause: loss-or-label-on-other-device
# guilty: soft
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
HEAT, MIX = 3.0, 0.7

big = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))
small = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))
big = big.to("cuda:1").eval().requires_grad_(False)
small = small.to("cuda:0")
opt = torch.optim.Adam(small.parameters(), lr=3e-3)


@torch.no_grad()
def ask(x):
    return F.softmax(big(x.to("cuda:1", non_blocking=True)) / HEAT, dim=-1)


def objective(out, soft, y):
    hard_part = F.cross_entropy(out, y)
    log_out = F.log_softmax(out / HEAT, dim=-1)
    soft_part = F.kl_div(log_out, soft, reduction="batchmean") * HEAT ** 2
    return MIX * soft_part + (1 - MIX) * hard_part


rows = TensorDataset(torch.randn(24, 20), torch.arange(24) % 4)
for epoch in range(2):
    for x, y in DataLoader(rows, batch_size=8):
        x, y = x.to("cuda:0"), y.to("cuda:0")
        value = objective(small(x), ask(x), y)
        opt.zero_grad(set_to_none=True)
        value.backward()
        opt.step()
    print(epoch, value.item())
