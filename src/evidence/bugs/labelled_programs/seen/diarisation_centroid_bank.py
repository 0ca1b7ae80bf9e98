# cause: cache-or-beam-state-on-wrong-device
# guilty: known (bank, self.bank.vectors)
# line: 52
# repair: in Worker.assign move the centroids that came from the shared bank to the worker's device (`known = self.bank.matrix().to(vec.device)`) OR keep the bank on the host and copy in and out
"""Speaker diarisation: workers on two cards share one bank of speaker centroids."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpeakerNet(nn.Module):
    def __init__(self, mel=20, dim=16):
        super().__init__()
        self.conv = nn.Conv1d(mel, 32, 5, padding=2)
        self.out = nn.Linear(64, dim)

    def forward(self, mel):
        h = F.relu(self.conv(mel))
        return F.normalize(self.out(torch.cat([h.mean(-1), h.std(-1)], -1)), dim=-1)


class CentroidBank:
    def __init__(self, momentum=0.9):
        self.momentum = momentum
        self.vectors = []

    def matrix(self):
        return torch.stack(self.vectors)

    def add(self, vector):
        self.vectors.append(vector.clone())
        return len(self.vectors) - 1

    def move(self, index, vector):
        old = self.vectors[index]
        self.vectors[index] = F.normalize(self.momentum * old + (1 - self.momentum) * vector, dim=0)


class Worker:
    def __init__(self, device, bank, weights, threshold=0.95):
        self.device = device
        self.bank = bank
        self.net = SpeakerNet()
        self.net.load_state_dict(weights)
        self.net.to(device).eval()
        self.threshold = threshold

    def assign(self, vec):
        if not self.bank.vectors:
            return self.bank.add(vec)
        known = self.bank.matrix()
        best, index = (known @ vec).max(0)
        if best < self.threshold:
            return self.bank.add(vec)
        self.bank.move(int(index), vec)
        return int(index)

    @torch.no_grad()
    def process(self, recording):
        return [self.assign(vec) for vec in self.net(recording.to(self.device))]


def recordings(n, segments=5):
    base = torch.randn(3, 20, 1)
    for _ in range(n):
        who = torch.randint(0, 3, (segments,))
        yield base[who] + 0.3 * torch.randn(segments, 20, 40)


if __name__ == "__main__":
    torch.manual_seed(0)
    weights = SpeakerNet().state_dict()
    bank = CentroidBank()
    workers = [Worker(f"cuda:{i}", bank, weights) for i in range(2)]
    for number, recording in enumerate(recordings(4)):
        print(number, workers[number % 2].process(recording))
