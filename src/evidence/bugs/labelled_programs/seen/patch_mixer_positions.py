# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: torch.arange(x.size(1), device="cuda:0")
import torch
import torch.nn as nn


class MixerBlock(nn.Module):
    def __init__(self, tokens, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.token = nn.Sequential(nn.Linear(tokens, tokens * 2), nn.GELU(), nn.Linear(tokens * 2, tokens))
        self.chan = nn.Sequential(nn.Linear(d, d * 2), nn.GELU(), nn.Linear(d * 2, d))

    def forward(self, x):
        x = x + self.token(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, size=32, patch=8, d=32, depth=2, classes=7):
        super().__init__()
        tokens = (size // patch) ** 2
        self.embed = nn.Conv2d(3, d, patch, stride=patch)
        self.position = nn.Embedding(tokens, d)
        self.blocks = nn.Sequential(*[MixerBlock(tokens, d) for _ in range(depth)])
        self.head = nn.Linear(d, classes)
        self.register_buffer("mean", torch.tensor([0.48, 0.45, 0.41]).view(1, 3, 1, 1))

    def forward(self, img):
        x = self.embed(img - self.mean).flatten(2).transpose(1, 2)
        x = x + self.position(torch.arange(x.size(1), device="cuda:0"))
        return self.head(self.blocks(x).mean(1))


class Trainer:
    def __init__(self, gpu):
        self.device = torch.device(gpu)
        self.model = Mixer().to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.loss = nn.CrossEntropyLoss()

    def batches(self, n):
        for _ in range(n):
            y = torch.randint(0, 7, (8,), device=self.device)
            yield torch.rand(8, 3, 32, 32, device=self.device) * (1 + y.view(-1, 1, 1, 1)), y

    def epoch(self, n=4):
        total = torch.zeros(1, device=self.device)
        for img, y in self.batches(n):
            loss = self.loss(self.model(img), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.detach()
        return (total / n).item()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer("cuda:1")
    for e in range(2):
        print(e, trainer.epoch())
