# cause: hard-coded-device|generator-or-default-device|input-not-on-embedding-device
# guilty: ids
# line: 22
# repair: in batches replace `.cuda()` by `.to("cuda:0")` (the student's device) OR in load_teacher use `with torch.cuda.device(1):` / `.to("cuda:1")` instead of torch.cuda.set_device(1)
"""Distil a wide text classifier on the second card into a small one on the first."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class TextClassifier(nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids)
        h = F.relu(self.conv(x.transpose(1, 2)))
        return self.out(h.amax(-1))


def load_teacher(path, vocab, classes):
    torch.cuda.set_device(1)
    teacher = TextClassifier(vocab, 96, classes)
    teacher.load_state_dict(torch.load(path, map_location="cpu"))
    teacher.cuda()
    for p in teacher.parameters():
        p.requires_grad_(False)
    return teacher.eval()


def batches(texts, labels, size):
    order = torch.randperm(len(texts))
    for start in range(0, len(texts), size):
        pick = order[start:start + size]
        yield texts[pick].cuda(), labels[pick].cuda()


def distil_loss(student_logits, teacher_logits, labels, tau=2.0, mix=0.5):
    soft = F.kl_div(F.log_softmax(student_logits / tau, -1), F.softmax(teacher_logits / tau, -1),
                    reduction="batchmean") * tau * tau
    return mix * soft + (1 - mix) * F.cross_entropy(student_logits, labels)


def accuracy(model, texts, labels, device):
    with torch.no_grad():
        return (model(texts.to(device)).argmax(-1).cpu() == labels).float().mean().item()


def main():
    torch.manual_seed(0)
    vocab, classes = 200, 4
    texts = torch.randint(1, vocab, (128, 12))
    labels = texts[:, 0] % classes
    path = os.path.join(tempfile.mkdtemp(), "teacher.pt")
    torch.save(TextClassifier(vocab, 96, classes).state_dict(), path)

    student = TextClassifier(vocab, 16, classes).to("cuda:0")
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
    print("before", accuracy(student, texts, labels, "cuda:0"))

    teacher = load_teacher(path, vocab, classes)
    print("teacher", accuracy(teacher, texts, labels, "cuda:1"))
    for epoch in range(2):
        for ids, target in batches(texts, labels, 32):
            logits = student(ids)
            with torch.no_grad():
                soft = teacher(ids.to("cuda:1")).to(logits.device)
            loss = distil_loss(logits, soft, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
