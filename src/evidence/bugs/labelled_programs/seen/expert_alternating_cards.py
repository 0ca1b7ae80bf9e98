# cause: block-split-across-devices|tensor-created-on-wrong-device
# guilty: expert(x[rows]) (y, expert output, expert)
# line: 53
# repair: bring the expert's result back before it is weighted: y = expert(x[rows].to(expert.device)).to(x.device) in MoELayer.forward OR keep all experts of a layer on the layer's card in place_experts
"""Mixture of experts whose experts alternate over two cards."""
import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1 = nn.Linear(width, hidden)
        self.w2 = nn.Linear(hidden, width)

    @property
    def device(self):
        return self.w1.weight.device

    def forward(self, x):
        return self.w2(F.silu(self.w1(x.to(self.device))))


class Router(nn.Module):
    def __init__(self, width, experts, top):
        super().__init__()
        self.proj = nn.Linear(width, experts, bias=False)
        self.top = top

    def forward(self, x):
        weights, chosen = self.proj(x).softmax(-1).topk(self.top, dim=-1)
        return weights / weights.sum(-1, keepdim=True), chosen


class MoELayer(nn.Module):
    def __init__(self, width, experts=4, top=2):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = Router(width, experts, top)
        self.experts = nn.ModuleList([Expert(width, 2 * width) for _ in range(experts)])

    def forward(self, tokens):
        shape = tokens.shape
        x = self.norm(tokens).reshape(-1, shape[-1])
        weights, chosen = self.router(x)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slot = (chosen == number).nonzero(as_tuple=True)
            if rows.numel() == 0:
                continue
            share = weights[rows, slot].unsqueeze(-1)
            out = out.index_add(0, rows, expert(x[rows]) * share)
        return tokens + out.view(shape)


class MoELM(nn.Module):
    def __init__(self, vocab=70, width=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList([MoELayer(width) for _ in range(depth)])
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def place_experts(model, main, others):
    """The trunk stays on one card; the experts, which are most of the weights, alternate."""
    model.to(main)
    cards = [main, *others]
    for layer in model.layers:
        for number, expert in enumerate(layer.experts):
            expert.to(cards[number % len(cards)])
    return model


def run():
    torch.manual_seed(0)
    model = place_experts(MoELM(), "cuda:0", ["cuda:1"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        ids = torch.randint(0, 70, (4, 24), device="cuda:0")
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step}: {loss.item():.3f}")


if __name__ == "__main__":
    run()
