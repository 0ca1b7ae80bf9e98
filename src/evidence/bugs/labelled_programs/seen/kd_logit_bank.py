# cause: loss-or-label-on-other-device
# guilty: teacher_logits (soft or bank[idx] or F.softmax(teacher_logits / T, dim=-1))
"""知识蒸馏：先用教师模型（第二张卡）离线算好所有样本的 logits，再训练学生模型（第一张卡）。"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

STUDENT_DEVICE = torch.device("cuda:0")
TEACHER_DEVICE = torch.device("cuda:1")
T = 4.0
ALPHA = 0.7


class IndexedBlobs(Dataset):
    """返回 (样本, 标签, 下标)。"""

    def __init__(self, n=96, dim=20, classes=6):
        g = torch.Generator().manual_seed(7)
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = torch.randn(n, dim, generator=g) + self.y[:, None].float()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i], i


def mlp(dim, hidden, classes, depth):
    layers = [nn.Linear(dim, hidden), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


@torch.no_grad()
def build_logit_bank(teacher, dataset):
    teacher.eval()
    chunks = []
    for x, _, _ in DataLoader(dataset, batch_size=32, shuffle=False):
        logits = teacher(x.to(TEACHER_DEVICE))
        chunks.append(logits)
    return torch.cat(chunks)


def distill_loss(student_logits, teacher_logits, labels):
    hard = F.cross_entropy(student_logits, labels)
    log_p = F.log_softmax(student_logits / T, dim=-1)
    soft = F.kl_div(log_p, F.softmax(teacher_logits / T, dim=-1), reduction="batchmean")
    return ALPHA * T * T * soft + (1 - ALPHA) * hard


def train(student, bank, dataset, epochs=2):
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for epoch in range(epochs):
        total = 0.0
        for x, y, idx in DataLoader(dataset, batch_size=16, shuffle=True):
            x, y = x.to(STUDENT_DEVICE), y.to(STUDENT_DEVICE)
            soft = bank[idx]
            loss = distill_loss(student(x), soft, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total:.3f}")


def main():
    data = IndexedBlobs()
    teacher = mlp(20, 128, 6, depth=3).to(TEACHER_DEVICE)
    bank = build_logit_bank(teacher, data)
    del teacher
    student = mlp(20, 16, 6, depth=1).to(STUDENT_DEVICE)
    train(student, bank, data)


if __name__ == "__main__":
    main()
