# cause: lm-head-or-tied-weight-split|input-not-on-embedding-device
# guilty: self.embed (self.embed.weight, the shared weight)
# line: 50
# repair: moving the head moves the shared weight: in apply_plan put "head" on the card of "embed" (plan["head"] = plan["embed"]) and bring x to it before the head OR untie for the split model (config tie=False), or tie copies: give the head its own clone of the weight before it is moved
import torch
import torch.nn as nn
import torch.nn.functional as F


class ByteConfig:
    vocab = 256
    dim = 40
    depth = 4
    tie = True
    window = 32


class GatedConv(nn.Module):
    def __init__(self, dim, kernel=4):
        super().__init__()
        self.pad = kernel - 1
        self.conv = nn.Conv1d(dim, 2 * dim, kernel)

    def forward(self, x):
        h = F.pad(x.transpose(1, 2), (self.pad, 0))
        a, g = self.conv(h).chunk(2, dim=1)
        return x + (a * torch.sigmoid(g)).transpose(1, 2)


class ByteModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.lower = nn.Sequential(*[GatedConv(cfg.dim) for _ in range(cfg.depth // 2)])
        self.upper = nn.Sequential(*[GatedConv(cfg.dim) for _ in range(cfg.depth // 2)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)
        if cfg.tie:
            self.head.weight = self.embed.weight
        self.plan = {}

    def apply_plan(self, plan):
        for name, device in plan.items():
            getattr(self, name).to(device)
        self.plan = plan
        return self

    def forward(self, ids):
        x = self.embed(ids.to(self.plan["embed"]))
        x = self.lower(x.to(self.plan["lower"]))
        x = self.upper(x.to(self.plan["upper"]))
        x = self.norm(x.to(self.plan["norm"]))
        return self.head(x.to(self.plan["head"]))


class ByteCorpus:
    def __init__(self, text, window):
        self.data = torch.tensor(list(text.encode()))
        self.window = window

    def sample(self, n):
        at = torch.randint(0, len(self.data) - self.window - 1, (n,)).tolist()
        x = torch.stack([self.data[i:i + self.window] for i in at])
        y = torch.stack([self.data[i + 1:i + 1 + self.window] for i in at])
        return x, y


def train(model, corpus, steps=3, lr=2e-3):
    opt = torch.optim.RMSprop(model.parameters(), lr=lr)
    for step in range(steps):
        x, y = corpus.sample(8)
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, f"{loss.item() / 0.6931:.3f} bits")


if __name__ == "__main__":
    torch.manual_seed(0)
    plan = {"embed": "cuda:0", "lower": "cuda:0", "upper": "cuda:1", "norm": "cuda:1", "head": "cuda:1"}
    net = ByteModel(ByteConfig()).apply_plan(plan)
    train(net, ByteCorpus("the quick brown fox jumps over the lazy dog. " * 20, ByteConfig.window))
