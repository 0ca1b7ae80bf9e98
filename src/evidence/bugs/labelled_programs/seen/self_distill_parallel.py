# cause: data-parallel-replica-device|tensor-created-on-wrong-device
# guilty: self.center (center)
# line: 22
# repair: register the centre as a buffer in CenteredHead.__init__ (self.register_buffer("center", torch.zeros(1, dim))) and update it in place (copy_), so that DataParallel replicates it, OR self.center.to(x.device) in forward
"""Self-distillation with a moving centre under nn.DataParallel on two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CenteredHead(nn.Module):
    def __init__(self, width, dim, temperature):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, dim))
        self.temperature, self.center = temperature, 0.0

    def set_center(self, value):
        self.center = value.detach()

    def forward(self, x):
        x = F.normalize(self.mlp(x), dim=-1)
        return (x - self.center) / self.temperature


class Branch(nn.Module):
    def __init__(self, temperature, width=24, dim=12):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 4, 4), nn.GELU(), nn.Conv2d(width, width, 2, 2))
        self.head = CenteredHead(width, dim, temperature)

    def forward(self, x):
        return self.head(self.encoder(x).mean((2, 3)))


class SelfDistiller:
    def __init__(self, device_ids=(0, 1), momentum=0.98):
        self.device = f"cuda:{device_ids[0]}"
        self.student, self.teacher = Branch(0.1), Branch(0.05)
        self.teacher.load_state_dict(self.student.state_dict())
        self.run_student = nn.DataParallel(self.student.to(self.device), device_ids=list(device_ids))
        self.run_teacher = nn.DataParallel(self.teacher.to(self.device), device_ids=list(device_ids))
        self.momentum, self.center = momentum, None
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-3)

    @torch.no_grad()
    def after_step(self, targets):
        for s, t in zip(self.student.parameters(), self.teacher.parameters()):
            t.lerp_(s, 1 - self.momentum)
        mean = targets.mean(0, keepdim=True) * self.teacher.head.temperature
        self.center = mean if self.center is None else self.center.lerp(mean, 0.1)
        self.teacher.head.set_center(self.center)

    def step(self, view_a, view_b):
        with torch.no_grad():
            targets = self.run_teacher(view_a.to(self.device))
        out = self.run_student(view_b.to(self.device))
        loss = -(targets.softmax(-1) * out.log_softmax(-1)).sum(-1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.after_step(targets)
        return loss.item()


def two_views(n):
    image = torch.rand(n, 3, 16, 16)
    return image, image.flip(-1) + 0.05 * torch.randn_like(image)


if __name__ == "__main__":
    torch.manual_seed(0)
    distiller = SelfDistiller()
    for step in range(4):
        print(step, distiller.step(*two_views(8)))
