# cause: loss-or-label-on-other-device|hard-coded-device
# guilty: running (loss)
import torch
import torch.nn as nn


class MLP(nn.Module):
    def __init__(self, dim=20, hidden=64, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.body(x)


def loader(n, batch, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(batch, 20, generator=g)
        yield x, (x[:, :4]).argmax(1)


gpu = 1
device = torch.device(f"cuda:{gpu}")
net = MLP().to(device)
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
crit = nn.CrossEntropyLoss(label_smoothing=0.1)
running = torch.zeros(1, device="cuda")
seen = 0

for epoch in range(2):
    running.zero_()
    seen = 0
    for x, y in loader(10, 32, epoch):
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = crit(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        running += loss.detach().float() * len(x)
        seen += len(x)
    print(epoch, (running / seen).item())
