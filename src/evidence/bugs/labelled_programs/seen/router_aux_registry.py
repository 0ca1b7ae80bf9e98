# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: values (AuxLosses.values, cls.values)
"""A switch-style language model over two cards with a load-balancing loss from every layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AuxLosses:
    values = []

    @classmethod
    def add(cls, value):
        cls.values.append(value)

    @classmethod
    def total(cls, weight=0.01):
        values, cls.values = cls.values, []
        return weight * torch.stack(values).mean()


class SwitchFFN(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(experts)
        )

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = self.router(flat).softmax(-1)
        gate, pick = probs.max(-1)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows = (pick == e).nonzero().squeeze(1)
            if rows.numel():
                out = out.index_add(0, rows, expert(flat[rows]) * gate[rows, None])
        share = F.one_hot(pick, len(self.experts)).float().mean(0)
        AuxLosses.add(len(self.experts) * (share * probs.mean(0)).sum())
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.ffn = SwitchFFN(dim, experts)

    def forward(self, x):
        x = x + self.mix(self.norm1(x))[0]
        return x + self.ffn(self.norm2(x))


class SwitchLM(nn.Module):
    def __init__(self, vocab, dim, depth, experts, devices):
        super().__init__()
        self.devices = [devices[i * len(devices) // depth] for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim).to(devices[0])
        self.layers = nn.ModuleList(Layer(dim, experts).to(d) for d in self.devices)
        self.head = nn.Linear(dim, vocab).to(devices[-1])

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for layer, device in zip(self.layers, self.devices):
            x = layer(x.to(device))
        return self.head(x)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(self, ids):
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].reshape(-1).to(logits.device))
        loss = loss + AuxLosses.total().to(loss.device)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(SwitchLM(40, 24, 4, 3, ["cuda:0", "cuda:1"]))
    for step in range(3):
        print(step, trainer.step(torch.randint(0, 40, (4, 17))))
