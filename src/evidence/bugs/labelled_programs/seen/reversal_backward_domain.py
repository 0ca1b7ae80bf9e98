# cause: tensor-created-on-wrong-device|hard-coded-device|loss-or-label-on-other-device
# guilty: ctx.strength (strength)
# line: 20
# repair: in GradReverse.backward use ctx.strength.to(grad.device) OR pass the strength as a Python number (schedule.value.item()) OR create Schedule.value as a CPU scalar / on cuda:1
"""Domain adaptation with a gradient reversal layer before the domain classifier."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Schedule:
    def __init__(self, total, device):
        self.total = total
        self.step_no = 0
        self.value = torch.zeros((), device=device)

    def step(self):
        self.step_no += 1
        self.value.fill_(2 / (1 + math.exp(-10 * self.step_no / self.total)) - 1)


class AdaptNet(nn.Module):
    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule
        self.features = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16)).to("cuda:0")
        self.task = nn.Linear(16, 4).to("cuda:0")
        self.domain = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)).to("cuda:1")

    def forward(self, x):
        f = self.features(x.to("cuda:0"))
        g = GradReverse.apply(f.to("cuda:1"), self.schedule.value)
        return self.task(f), self.domain(g)


def losses(net, source, labels, target):
    task_logits, dom_s = net(source)
    _, dom_t = net(target)
    dom = torch.cat([dom_s, dom_t])
    dom_labels = torch.cat([dom.new_zeros(len(dom_s)), dom.new_ones(len(dom_t))]).long()
    task = F.cross_entropy(task_logits, labels.to(task_logits.device))
    return task + F.cross_entropy(dom, dom_labels).to(task.device)


torch.manual_seed(0)
schedule = Schedule(total=20, device="cuda:0")
net = AdaptNet(schedule)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for it in range(5):
    source, labels, target = torch.randn(8, 20), torch.randint(0, 4, (8,)), torch.randn(8, 20) + 1
    loss = losses(net, source, labels, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    schedule.step()
    print(it, round(loss.item(), 4))
