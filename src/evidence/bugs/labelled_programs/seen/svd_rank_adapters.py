# cause: adapter-weights-on-other-device
# guilty: self.sigma (sigma)
# line: 32
# repair: add "sigma" to SVDAdapter.adapter_names so that align() moves it with down and up OR create the three tensors on base.weight.device in attach() instead of the device that is passed in OR register them as a submodule and call .to(base.weight.device)
"""Rank-adaptive fine-tuning of a log classifier that is spread over two cards."""
import torch
from torch import nn
from torch.nn import functional as F


class SVDAdapter(nn.Module):
    """base(x) plus up @ diag(sigma) @ down; entries of sigma are pruned as training goes on."""

    adapter_names = ("down", "up")

    def __init__(self, base, rank, scale, device):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scale = scale
        self.down = nn.Parameter(torch.randn(rank, base.in_features, device=device) * 0.02)
        self.up = nn.Parameter(torch.randn(base.out_features, rank, device=device) * 0.02)
        self.sigma = nn.Parameter(torch.zeros(rank, 1, device=device))

    def align(self):
        target = self.base.weight.device
        for name in self.adapter_names:
            param = getattr(self, name)
            param.data = param.data.to(target)
        return self

    def forward(self, x):
        delta = x @ (self.down * self.sigma).t() @ self.up.t()
        return self.base(x) + self.scale * delta

    def orthogonality(self):
        gram = self.down @ self.down.t()
        return (gram - torch.eye(len(gram), device=gram.device)).pow(2).mean()

    @torch.no_grad()
    def prune(self, keep):
        order = self.sigma.abs().flatten().argsort(descending=True)
        self.sigma[order[keep:]] = 0


class MixerBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.expand = nn.Linear(dim, 2 * dim)
        self.shrink = nn.Linear(2 * dim, dim)

    def forward(self, h):
        return h + self.shrink(F.gelu(self.expand(self.norm(h))))


class LogClassifier(nn.Module):
    def __init__(self, vocab=120, dim=32, depth=4, classes=5):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim)
        self.blocks = nn.ModuleList(MixerBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def spread(self, first, second):
        self.embed.to(first)
        half = len(self.blocks) // 2
        for i, block in enumerate(self.blocks):
            block.to(first if i < half else second)
        self.head.to(second)
        return self

    @property
    def device(self):
        return self.embed.weight.device

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = block(h.to(block.norm.weight.device))
        return self.head(h)


def attach(model, rank, scale=2.0):
    adapters = []
    for block in model.blocks:
        for name in ("expand", "shrink"):
            adapter = SVDAdapter(getattr(block, name), rank, scale, model.device).align()
            setattr(block, name, adapter)
            adapters.append(adapter)
    return adapters


def main():
    torch.manual_seed(0)
    model = LogClassifier().spread("cuda:0", "cuda:1").requires_grad_(False)
    adapters = attach(model, rank=6)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for step in range(20):
        ids = torch.randint(0, 120, (16, 12), device=model.device)
        target = (ids.sum(1) % 5).to(model.head.weight.device)
        logits = model(ids)
        loss = F.cross_entropy(logits, target)
        loss = loss + 0.1 * sum(a.orthogonality().to(loss.device) for a in adapters)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            for adapter in adapters:
                adapter.prune(keep=4)
            print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
