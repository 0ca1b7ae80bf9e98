# cause: block-split-across-devices
# guilty: x
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.where = None

    def place(self, dev):
        self.where = dev
        return self.to(dev)

    def forward(self, x):
        y = self.ff(self.norm(x.to(self.where)))
        return x + y


class Deep(nn.Module):
    def __init__(self, depth=8, d=32):
        super().__init__()
        n_gpu = torch.cuda.device_count()
        per = -(-depth // n_gpu)
        self.blocks = nn.ModuleList(Mixer(d).place(torch.device("cuda", i // per)) for i in range(depth))
        self.score = nn.Linear(d, 1).to(self.blocks[-1].where)

    def forward(self, x):
        for blk in self.blocks:
            x = blk(x)
        return self.score(x).squeeze(-1)


torch.manual_seed(3)
model = Deep()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
start = model.blocks[0].where
end = model.blocks[-1].where
for step in range(5):
    x = torch.randn(16, 32, device=start)
    y = x.sum(1).to(end)
    loss = nn.functional.smooth_l1_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
