# cause: loss-or-label-on-other-device
# guilty: index (probs)
# line: 57
# repair: in TeacherCache.lookup send both tensors to the device asked for, return index.to(device), probs.to(device) OR in SparseDistillLoss.forward move index and probs to student_logits.device
"""Distillation from the best k teacher probabilities, kept per example."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, size=32, features=20):
        gen = torch.Generator().manual_seed(0)
        self.x = torch.randn(size, features, generator=gen)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return i, self.x[i]


def mlp(width, classes=40):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, classes))


class TeacherCache:
    """Runs the teacher once per example and remembers its k best classes."""

    def __init__(self, teacher, device, k=5):
        self.teacher = teacher.to(device).eval()
        self.device, self.k = torch.device(device), k
        self.known = {}

    @torch.no_grad()
    def _fill(self, keys, x):
        probs, index = self.teacher(x.to(self.device)).softmax(-1).topk(self.k, dim=-1)
        for row, key in enumerate(keys):
            self.known[key] = (index[row], probs[row])

    def lookup(self, keys, x):
        missing = [i for i, key in enumerate(keys) if key not in self.known]
        if missing:
            self._fill([keys[i] for i in missing], x[missing])
        pairs = [self.known[key] for key in keys]
        return torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])


class SparseDistillLoss(nn.Module):
    def __init__(self, temperature=2.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, student_logits, index, probs):
        logp = F.log_softmax(student_logits / self.temperature, dim=-1)
        picked = logp.gather(-1, index)
        return -(probs * picked).sum(-1).mean()


class Distiller:
    def __init__(self, student, cache, device):
        self.device = torch.device(device)
        self.student = student.to(self.device)
        self.cache = cache
        self.criterion = SparseDistillLoss().to(self.device)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-2)

    def epoch(self, loader):
        total = 0.0
        for keys, x in loader:
            index, probs = self.cache.lookup(keys.tolist(), x)
            loss = self.criterion(self.student(x.to(self.device)), index, probs)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)


if __name__ == "__main__":
    torch.manual_seed(0)
    cache = TeacherCache(mlp(128), device="cuda:1")
    distiller = Distiller(mlp(16), cache, device="cuda:0")
    loader = DataLoader(Numbers(), batch_size=8, shuffle=True)
    for epoch in range(2):
        print(epoch, distiller.epoch(loader))
