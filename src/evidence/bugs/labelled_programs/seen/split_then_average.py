# cause: optimizer-state-on-other-device
# guilty: shadow (self.shadow[name])
# line: 60
# repair: in main build AveragedWeights after model.place(...) OR in AveragedWeights.update move the kept copy first, shadow = self.shadow[name] = self.shadow[name].to(param.device)
"""Language model over two cards with an average of its weights kept for evaluation."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 64


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x):
        return x + self.rnn(self.norm(x))[0]


class SmallLM(nn.Module):
    def __init__(self, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList(Mixer(dim) for _ in range(depth))
        self.head = nn.Linear(dim, VOCAB)
        self.entry = self.exit = torch.device("cpu")

    def place(self, first, second):
        self.entry, self.exit = torch.device(first), torch.device(second)
        half = len(self.layers) // 2
        self.embed.to(self.entry)
        for layer in self.layers[:half]:
            layer.to(self.entry)
        for layer in self.layers[half:]:
            layer.to(self.exit)
        self.head.to(self.exit)
        return self

    def forward(self, ids):
        x = self.embed(ids.to(self.entry))
        for layer in self.layers:
            x = layer(x.to(layer.norm.weight.device))
        return self.head(x)


class AveragedWeights:
    """Keeps an exponential average of every trainable weight."""

    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self, model):
        for name, param in model.named_parameters():
            shadow = self.shadow[name]
            shadow.lerp_(param, 1.0 - self.decay)

    @torch.no_grad()
    def copy_to(self, model):
        for name, param in model.named_parameters():
            param.copy_(self.shadow[name])


def batches(count, generator):
    for _ in range(count):
        yield torch.randint(0, VOCAB, (8, 17), generator=generator)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = SmallLM().to("cuda:0")
    averaged = AveragedWeights(model)
    model.place("cuda:0", "cuda:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, ids in enumerate(batches(5, torch.Generator().manual_seed(1))):
        logits = model(ids[:, :-1])
        target = ids[:, 1:].to(logits.device)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged.update(model)
        print(f"step {step} loss {loss.item():.3f}")
    averaged.copy_to(model)
