# cause: adapter-weights-on-other-device
# guilty: self.A.T (self.A)
import math
import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad = False
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.A.T @ self.B.T)


def inject(module, names, r):
    for child_name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and child_name in names:
            setattr(module, child_name, LoRALinear(child, r))
        else:
            inject(child, names, r)
    return module


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up = nn.Linear(d, 3 * d)
        self.down = nn.Linear(3 * d, d)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


device = torch.device("cuda:0")
backbone = nn.Sequential(*[Block(32) for _ in range(3)], nn.Linear(32, 4)).to(device)
inject(backbone, {"up", "down"}, r=4)
params = [p for p in backbone.parameters() if p.requires_grad]
opt = torch.optim.AdamW(params, lr=1e-3)
x = torch.randn(64, 32, device=device)
y = torch.randint(0, 4, (64,), device=device)
for _ in range(3):
    loss = nn.functional.cross_entropy(backbone(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(sum(p.numel() for p in params), loss.item())
