# cause: loss-or-label-on-other-device
# guilty: teacher_probs (soft targets, targets)
# line: 54
# repair: in Teacher.soft_targets return the probabilities on the student's card (probs.to(self.output_device) with output_device=cfg.student_device given by build) OR in DistillationLoss.forward use teacher_probs = teacher_probs.to(student_logits.device) before kl_div
"""Distillation with the teacher on the second card."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class DistilConfig:
    student_device: str = "cuda:0"
    teacher_device: str = "cuda:1"
    temperature: float = 2.0
    alpha: float = 0.7
    classes: int = 10


def convnet(width, classes):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(2 * width, classes))


class Teacher:
    """A frozen network; takes images from anywhere."""

    def __init__(self, net, device, temperature, output_device=None):
        self.net = net.to(device).eval()
        self.device = torch.device(device)
        self.output_device = torch.device(output_device or device)
        self.temperature = temperature

    @torch.no_grad()
    def soft_targets(self, images):
        logits = self.net(images.to(self.device, non_blocking=True))
        probs = F.softmax(logits / self.temperature, dim=-1)
        return probs.to(self.output_device)


class DistillationLoss(nn.Module):
    def __init__(self, alpha, temperature):
        super().__init__()
        self.alpha = alpha
        self.temperature = temperature

    def forward(self, student_logits, teacher_probs, labels):
        hard = F.cross_entropy(student_logits, labels)
        log_probs = F.log_softmax(student_logits / self.temperature, dim=-1)
        soft = F.kl_div(log_probs, teacher_probs, reduction="batchmean")
        return (1 - self.alpha) * hard + self.alpha * self.temperature ** 2 * soft


class Distiller:
    def __init__(self, cfg, student, teacher):
        self.cfg = cfg
        self.student = student
        self.teacher = teacher
        self.loss = DistillationLoss(cfg.alpha, cfg.temperature)
        self.optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)

    def step(self, images, labels):
        images = images.to(self.cfg.student_device)
        labels = labels.to(self.cfg.student_device)
        targets = self.teacher.soft_targets(images)
        loss = self.loss(self.student(images), targets, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(cfg):
    student = convnet(4, cfg.classes).to(cfg.student_device)
    teacher = Teacher(convnet(16, cfg.classes), cfg.teacher_device, cfg.temperature)
    return Distiller(cfg, student, teacher)


def fake_loader(batches, size, classes):
    for _ in range(batches):
        yield torch.randn(size, 3, 16, 16), torch.randint(0, classes, (size,))


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = DistilConfig()
    distiller = build(cfg)
    for images, labels in fake_loader(3, 8, cfg.classes):
        print(float(distiller.step(images, labels)))
