# cause: loss-or-label-on-other-device
import torch
from torch import nn


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    @torch.no_grad()
    def forward(self, x):
        return self.fc(x).softmax(-1)


student, teacher = nn.Linear(6, 4).to("cuda:0"), Teacher().to("cuda:1")
opt = torch.optim.Adam(student.parameters())
for _ in range(2):
    x, y = torch.randn(5, 6), torch.randint(0, 4, (5,))
    logits = student(x.to("cuda:0"))
    soft = teacher(x.to("cuda:1"))
    hard = nn.functional.cross_entropy(logits, y.to("cuda:0"))
    distil = -(soft * logits.log_softmax(-1)).sum(-1).mean()
    loss = hard + 0.5 * distil
    opt.zero_grad()
    loss.backward()
    opt.step()
