# cause: adapter-weights-on-other-device
# guilty: self.down.weight (self.down or self.down(x) or self.up)
import math
import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.down = nn.Linear(base.in_features, r, bias=False)
        self.up = nn.Linear(r, base.out_features, bias=False)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * self.scale


class Encoder(nn.Module):
    def __init__(self, dim=32, classes=3):
        super().__init__()
        self.q_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.cls = nn.Linear(dim, classes)

    def forward(self, x):
        att = (self.q_proj(x) @ x.transpose(1, 2) / 6).softmax(-1)
        return self.cls((att @ self.v_proj(x)).mean(1))


def inject(model, names, r):
    for name in names:
        setattr(model, name, LoRALinear(getattr(model, name), r=r))
    return [p for p in model.parameters() if p.requires_grad]


torch.manual_seed(0)
device = "cuda:1"
net = Encoder().to(device)
params = inject(net, ["q_proj", "v_proj"], r=4)
opt = torch.optim.AdamW(params, lr=1e-3)
x, y = torch.randn(16, 10, 32), torch.randint(0, 3, (16,))
for i in range(5):
    loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
