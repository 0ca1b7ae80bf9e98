# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: perm
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.cuda.set_device(0)
device = torch.device("cuda:1")


class Mixup:
    def __init__(self, alpha=0.4, prob=1.0):
        self.beta = torch.distributions.Beta(alpha, alpha)
        self.prob = prob

    def __call__(self, x, y):
        if torch.rand(()).item() > self.prob:
            return x, y, y, 1.0
        lam = float(self.beta.sample())
        perm = torch.randperm(x.size(0)).cuda()
        return lam * x + (1 - lam) * x[perm], y, y[perm], lam


class Patchify(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.proj = nn.Conv2d(3, d, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.mix = nn.Linear(d, d)
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        t = self.proj(x).flatten(2).transpose(1, 2)
        t = torch.cat([self.cls.expand(x.size(0), -1, -1), t], dim=1)
        t = t + F.gelu(self.mix(t)).mean(1, keepdim=True)
        return self.head(t[:, 0])


def flip(x):
    mask = torch.rand(x.size(0), device=x.device) < 0.5
    return torch.where(mask[:, None, None, None], x.flip(-1), x)


# %% train
torch.manual_seed(0)
net = Patchify().to(device)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
mix = Mixup()
for it in range(3):
    images = torch.rand(6, 3, 8, 8).to(device, non_blocking=True)
    labels = torch.randint(0, 4, (6,)).to(device, non_blocking=True)
    images, ya, yb, lam = mix(flip(images), labels)
    out = net(images)
    loss = lam * F.cross_entropy(out, ya) + (1 - lam) * F.cross_entropy(out, yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
