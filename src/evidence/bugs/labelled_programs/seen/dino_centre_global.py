# cause: tensor-created-on-wrong-device|loss-or-label-on-other-device|hard-coded-device
# guilty: CENTRE["value"] (centre)
# line: 18
# repair: in reset_centre create the centre on the teacher's card (reset_centre(width, teacher_card) in SelfTeacher.__init__ instead of student_card) OR use CENTRE["value"].to(logits.device) both in targets() and in update_centre()
"""Self-supervised learning with a centred teacher on a second card."""
import copy
import torch
from torch import nn

CENTRE = {"value": None, "momentum": 0.9}


def reset_centre(width, device):
    CENTRE["value"] = torch.zeros(1, width, device=device)


def targets(logits, temperature=0.04):
    return ((logits - CENTRE["value"]) / temperature).softmax(-1)


@torch.no_grad()
def update_centre(logits):
    m = CENTRE["momentum"]
    CENTRE["value"] = CENTRE["value"] * m + logits.mean(0, keepdim=True) * (1 - m)


class Backbone(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(64, width)

    def forward(self, x):
        return self.head(self.net(x))


class SelfTeacher:
    def __init__(self, width=32, student_card="cuda:0", teacher_card="cuda:1", decay=0.99):
        self.student_card, self.teacher_card, self.decay = student_card, teacher_card, decay
        self.student = Backbone(width).to(student_card)
        self.teacher = copy.deepcopy(self.student).to(teacher_card).requires_grad_(False)
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.05)
        reset_centre(width, student_card)

    @torch.no_grad()
    def follow(self):
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.lerp_(s.to(t.device), 1 - self.decay)

    def step(self, crops):
        with torch.no_grad():
            logits = self.teacher(crops[0].to(self.teacher_card))
            soft = targets(logits).to(self.student_card)
        loss = 0.0
        for crop in crops[1:]:
            out = self.student(crop.to(self.student_card)) / 0.1
            loss = loss - (soft * out.log_softmax(-1)).sum(-1).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.follow()
        update_centre(logits)
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    run = SelfTeacher()
    for i in range(3):
        x = torch.randn(8, 3, 24, 24)
        print(i, run.step([x, x.flip(-1), x + 0.1 * torch.randn_like(x)]))
