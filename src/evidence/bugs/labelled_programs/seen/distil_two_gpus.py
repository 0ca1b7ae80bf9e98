# cause: loss-or-label-on-other-device
# guilty: hidden_loss
"""Teacher on the second card, student on the first."""
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.inp = nn.Linear(12, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for m in self.mid:
            h = h + F.gelu(m(h))
        return self.out(h), h


STUDENT, TEACHER = "cuda:0", "cuda:1"
teacher = Net(48, 4).to(TEACHER).eval().requires_grad_(False)
student = Net(24, 1).to(STUDENT)
align = nn.Linear(24, 48).to(TEACHER)  # sits with the teacher, its targets are big
opt = torch.optim.AdamW([*student.parameters(), *align.parameters()], lr=2e-3)


def distil(x, y, temperature=2.0):
    with torch.no_grad():
        t_logits, t_hidden = teacher(x.to(TEACHER))
    s_logits, s_hidden = student(x.to(STUDENT))
    ce = F.cross_entropy(s_logits, y.to(STUDENT))
    soft = (t_logits / temperature).softmax(-1).to(STUDENT)
    kd = F.kl_div((s_logits / temperature).log_softmax(-1), soft, reduction="batchmean") * temperature ** 2
    hidden_loss = F.mse_loss(align(s_hidden.to(TEACHER)), t_hidden)
    task_loss = 0.5 * ce + 0.5 * kd
    return task_loss + hidden_loss


for step in range(3):
    x, y = torch.randn(16, 12), torch.randint(0, 5, (16,))
    opt.zero_grad()
    loss = distil(x, y)
    loss.backward()
    opt.step()
    print(step, float(loss))
