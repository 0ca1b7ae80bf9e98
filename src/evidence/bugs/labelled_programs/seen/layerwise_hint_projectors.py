# cause: module-left-on-other-device
# guilty: proj (proj.weight, self.projectors)
# line: 54
# repair: make HintDistiller an nn.Module with self.projectors = nn.ModuleList(...) and move it with the student OR in HintDistiller.__init__ build each projector on the student's device: nn.Linear(s, t).to(student_device)
"""Layer-wise distillation of a convolutional teacher that sits on a second card."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ARCHS = {"teacher": (16, 32, 64), "student": (8, 16, 32)}


class ConvNet(nn.Module):
    def __init__(self, widths, classes=6):
        super().__init__()
        chain, last = [], 3
        for w in widths:
            chain.append(nn.Sequential(nn.Conv2d(last, w, 3, 2, 1), nn.BatchNorm2d(w), nn.ReLU()))
            last = w
        self.stages = nn.ModuleList(chain)
        self.fc = nn.Linear(last, classes)

    def forward(self, x):
        hints = []
        for stage in self.stages:
            x = stage(x)
            hints.append(x.mean((2, 3)))
        return self.fc(hints[-1]), hints


def create(name):
    return ConvNet(ARCHS[name])


class HintDistiller:
    """Soft-label loss and hint losses through learned projections."""

    def __init__(self, student_widths, teacher_widths, temperature=2.0, weight=0.5):
        self.temperature, self.weight = temperature, weight
        self.projectors = [nn.Linear(s, t) for s, t in zip(student_widths, teacher_widths)]

    def parameters(self):
        for proj in self.projectors:
            yield from proj.parameters()

    def soft(self, s_logits, t_logits):
        t = self.temperature
        return F.kl_div(F.log_softmax(s_logits / t, -1), F.softmax(t_logits / t, -1),
                        reduction="batchmean") * t * t

    def hint(self, s_hints, t_hints):
        total = 0.0
        for proj, s, t in zip(self.projectors, s_hints, t_hints):
            total = total + F.mse_loss(proj(s), t)
        return total / len(s_hints)

    def __call__(self, student_out, teacher_out):
        (s_logits, s_hints), (t_logits, t_hints) = student_out, teacher_out
        return self.soft(s_logits, t_logits) + self.weight * self.hint(s_hints, t_hints)


class RemoteTeacher:
    def __init__(self, model, device):
        self.model, self.device = model.to(device).eval(), device

    @torch.no_grad()
    def __call__(self, images):
        logits, hints = self.model(images.to(self.device))
        return logits.to(images.device), [h.to(images.device) for h in hints]


def run(steps=3, device="cuda:0"):
    student = create("student").to(device)
    teacher = RemoteTeacher(create("teacher"), "cuda:1")
    distill = HintDistiller(ARCHS["student"], ARCHS["teacher"])
    opt = torch.optim.SGD([*student.parameters(), *distill.parameters()], lr=0.02)
    for _ in range(steps):
        images = torch.randn(4, 3, 32, 32, device=device)
        labels = torch.randint(0, 6, (4,), device=device)
        out = student(images)
        loss = F.cross_entropy(out[0], labels) + distill(out, teacher(images))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())


if __name__ == "__main__":
    run()
