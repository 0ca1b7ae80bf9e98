# cause: loss-or-label-on-other-device
# guilty: part
import torch
import torch.nn as nn

torch.manual_seed(0)
TASKS = {"depth": ("cuda:0", 1), "normal": ("cuda:0", 3), "edge": ("cuda:1", 2)}

trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU()).to("cuda:0")
heads = {t: nn.Linear(16, n).to(d) for t, (d, n) in TASKS.items()}
params = list(trunk.parameters()) + [p for h in heads.values() for p in h.parameters()]
opt = torch.optim.Adam(params, 1e-2)


def closure(x, goals):
    z = trunk(x)
    parts = {}
    for t, head in heads.items():
        dev = TASKS[t][0]
        parts[t] = (head(z.to(dev)) - goals[t].to(dev)).pow(2).mean()
    return parts


ACCUM = 2
for step in range(4):
    x = torch.randn(8, 6, device="cuda:0")
    goals = {t: torch.randn(8, n) for t, (_, n) in TASKS.items()}
    total = torch.tensor(0.0)
    for part in closure(x, goals).values():
        total = total + part / ACCUM
    total.backward()
    if step % ACCUM == ACCUM - 1:
        opt.step()
        opt.zero_grad()
print(total.item())
