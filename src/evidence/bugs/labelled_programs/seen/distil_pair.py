# cause: loss-or-label-on-other-device
# guilty: (t / self.T).softmax(-1) (t)
import torch
from torch import nn
import torch.nn.functional as F


def convnet(width, classes=6):
    return nn.Sequential(nn.Conv1d(1, width, 7, 2, 3), nn.BatchNorm1d(width), nn.ReLU(),
                         nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, classes))


class Frozen:
    """Teacher on the spare card; moves what it is given to itself."""

    def __init__(self, net, device):
        self.net = net.to(device).eval().requires_grad_(False)
        self.device = torch.device(device)

    @torch.no_grad()
    def __call__(self, x):
        return self.net(x.to(self.device, non_blocking=True))


class Distiller:
    def __init__(self, student, teacher, device, temperature=3.0, alpha=0.7):
        self.student, self.teacher = student.to(device), teacher
        self.device, self.T, self.alpha = torch.device(device), temperature, alpha
        self.opt = torch.optim.AdamW(student.parameters(), 2e-3)

    def soft(self, s, t):
        return F.kl_div((s / self.T).log_softmax(-1), (t / self.T).softmax(-1), reduction="batchmean") * self.T ** 2

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        logits = self.student(x)
        hard = F.cross_entropy(logits, y)
        loss = (1 - self.alpha) * hard + self.alpha * self.soft(logits, self.teacher(x))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def vibration(n, t=128):
    y = torch.randint(0, 6, (n,))
    s = torch.sin(torch.arange(t) * (0.1 + 0.1 * y[:, None]))
    return (s + 0.2 * torch.randn(n, t)).unsqueeze(1), y


if __name__ == "__main__":
    torch.manual_seed(0)
    teacher = Frozen(convnet(48), "cuda:1")
    d = Distiller(convnet(8), teacher, "cuda:0")
    for i in range(4):
        print(i, d.step(*vibration(16)))
