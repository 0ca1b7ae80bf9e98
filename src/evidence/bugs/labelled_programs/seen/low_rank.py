# cause: adapter-weights-on-other-device
# guilty: self.down
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(20)


class LowRank(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.gain = alpha / rank

    def forward(self, x):
        y = self.base(x)
        return y + self.gain * F.linear(F.linear(x, self.down), self.up)


def inject(model, wanted=("query", "value")):
    for name, child in list(model.named_children()):
        if name in wanted and isinstance(child, nn.Linear):
            setattr(model, name, LowRank(child))
        else:
            inject(child, wanted)
    return model


class Attend(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        return x + F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Attend(), Attend())
        self.answer = nn.Linear(16, 3)

    def forward(self, x):
        return self.answer(self.body(x).mean(1))


model = Reader().to("cuda:1")
inject(model)
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
x, y = torch.randn(4, 6, 16, device="cuda:1"), torch.tensor([0, 1, 2, 0], device="cuda:1")
for step in range(3):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
