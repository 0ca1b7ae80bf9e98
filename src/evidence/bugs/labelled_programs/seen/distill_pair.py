# cause: loss-or-label-on-other-device
# guilty: q (teacher, t_logits)
"""Distillation: the big teacher has its own card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class KDLoss(nn.Module):
    def __init__(self, temperature=4.0, weight=0.7):
        super().__init__()
        self.T, self.w = temperature, weight

    def forward(self, student, teacher, target):
        hard = F.cross_entropy(student, target)
        p = F.log_softmax(student / self.T, dim=1)
        q = F.softmax(teacher / self.T, dim=1)
        soft = F.kl_div(p, q, reduction="batchmean") * self.T ** 2
        return (1 - self.w) * hard + self.w * soft


class MLP(nn.Sequential):
    def __init__(self, *sizes):
        layers = []
        for a, b in zip(sizes[:-2], sizes[1:-1]):
            layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
        super().__init__(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Distiller:
    def __init__(self, teacher, student, teacher_dev, student_dev):
        self.t_dev, self.s_dev = torch.device(teacher_dev), torch.device(student_dev)
        self.teacher = teacher.to(self.t_dev).eval().requires_grad_(False)
        self.student = student.to(self.s_dev)
        self.criterion = KDLoss()
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def step(self, x, y):
        with torch.no_grad():
            t_logits = self.teacher(x.to(self.t_dev))
        s_logits = self.student(x.to(self.s_dev))
        loss = self.criterion(s_logits, t_logits, y.to(self.s_dev))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def agreement(self, x):
        self.student.eval()
        a = self.teacher(x.to(self.t_dev)).argmax(1).cpu()
        b = self.student(x.to(self.s_dev)).argmax(1).cpu()
        self.student.train()
        return (a == b).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    d = Distiller(MLP(10, 64, 64, 5), MLP(10, 16, 5), "cuda:1", "cuda:0")
    for step in range(3):
        x, y = torch.randn(16, 10), torch.randint(0, 5, (16,))
        print(step, d.step(x, y), d.agreement(x))
