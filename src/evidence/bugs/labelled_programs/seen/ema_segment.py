# cause: optimizer-state-on-other-device|module-left-on-other-device
# guilty: self.shadow[k]
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.down = nn.Conv2d(1, c, 3, 2, 1)
        self.bn = nn.BatchNorm2d(c)
        self.up = nn.ConvTranspose2d(c, 1, 4, 2, 1)

    def forward(self, x):
        return self.up(F.relu(self.bn(self.down(x))))


class Averager:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.source = model
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self):
        for k, v in self.source.state_dict().items():
            if v.dtype.is_floating_point:
                self.shadow[k].lerp_(v, 1 - self.decay)
            else:
                self.shadow[k].copy_(v)

    def materialise(self):
        m = copy.deepcopy(self.source)
        m.load_state_dict(self.shadow)
        return m.eval()


class Session:
    def __init__(self, device):
        self.net = Net()
        self.ema = Averager(self.net)
        self.device = device

    def discs(self, n=6, size=32):
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        c = torch.randint(8, size - 8, (n, 2, 1, 1))
        mask = ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2 < 36).float().unsqueeze(1)
        return (mask + 0.3 * torch.randn_like(mask)).to(self.device), mask.to(self.device)

    def train(self, steps):
        self.net.to(self.device).train()
        opt = torch.optim.RMSprop(self.net.parameters(), 1e-3)
        for _ in range(steps):
            x, m = self.discs()
            loss = F.binary_cross_entropy_with_logits(self.net(x), m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            self.ema.update()
        return loss.item()

    def dice(self):
        x, m = self.discs()
        with torch.no_grad():
            p = self.ema.materialise()(x).sigmoid() > 0.5
        return (2 * (p & m.bool()).sum() / (p.sum() + m.sum())).item()


s = Session("cuda:0")
print("loss", s.train(4), "dice", s.dice())
