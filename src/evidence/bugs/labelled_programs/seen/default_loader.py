# cause: generator-or-default-device|generator-on-other-device
# guilty: ?
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda:1")
torch.manual_seed(23)

x = torch.randn(40, 9)
y = (x[:, :3].sum(1) > 0).long()
order = torch.Generator().manual_seed(23)
loader = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True, generator=order)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(9, 16), nn.Linear(9, 16)
        self.c = nn.Linear(16, 2)

    def forward(self, x):
        return self.c(torch.sigmoid(self.a(x)) * self.b(x))


net = Gate()
opt = torch.optim.SGD(net.parameters(), lr=0.2)
plan = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)

for epoch in range(3):
    right = 0
    for rows, wanted in loader:
        out = net(rows)
        loss = F.cross_entropy(out, wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (out.argmax(1) == wanted).sum().item()
    plan.step()
    print(epoch, right / len(x))
