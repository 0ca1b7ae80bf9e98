# cause: loss-or-label-on-other-device
# guilty: soft
import torch
import torch.nn as nn
import torch.nn.functional as F


class Distiller:
    def __init__(self, teacher, student, t=2.0, mix=0.7):
        self.teacher, self.student, self.t, self.mix = teacher.eval(), student, t, mix
        self.opt = torch.optim.SGD(student.parameters(), 0.1)

    @staticmethod
    def home(module):
        return next(module.parameters()).device

    def step(self, x, y):
        with torch.no_grad():
            soft = self.teacher(x.to(self.home(self.teacher))) / self.t
        out = self.student(x.to(self.home(self.student)))
        hard = F.cross_entropy(out, y.to(out.device))
        kl = F.kl_div((out / self.t).log_softmax(-1), soft.softmax(-1), reduction="batchmean")
        loss = self.mix * self.t ** 2 * kl + (1 - self.mix) * hard
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def net(h):
    return nn.Sequential(nn.Linear(10, h), nn.ReLU(), nn.Linear(h, 4))


torch.manual_seed(0)
d = Distiller(net(64).to("cuda:1"), net(8).to("cuda:0"))
for _ in range(3):
    print(round(d.step(torch.randn(16, 10), torch.randint(0, 4, (16,))), 4))
