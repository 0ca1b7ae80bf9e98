# cause: block-split-across-devices|tensor-created-on-wrong-device
# guilty: rows (index)
# line: 54
# repair: do not overwrite the row index when the tokens are sent to the expert: write expert(flat[rows].to(device)) and keep rows and weight on flat's card, so that result.index_add_(0, rows, y.to(flat.device) * weight) fits OR bring rows back: result.index_add_(0, rows.to(result.device), ...)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)
        self.bias_by_row = nn.Parameter(torch.zeros(512))

    def forward(self, x, rows):
        scale = 1 + self.bias_by_row[rows % 512].unsqueeze(-1)
        return self.down(F.silu(self.gate(x)) * self.up(x)) * scale


class ExpertPool(nn.ModuleList):
    """Experts in turn on the cards."""

    def __init__(self, n, dim, cards):
        super().__init__(Expert(dim).to(cards[i % len(cards)]) for i in range(n))
        self.cards = [cards[i % len(cards)] for i in range(n)]


class SparseLayer(nn.Module):
    def __init__(self, dim, n_expert, top, cards):
        super().__init__()
        self.top = top
        self.norm = nn.LayerNorm(dim)
        self.router = nn.Linear(dim, n_expert, bias=False)
        self.experts = ExpertPool(n_expert, dim, cards)
        self.norm.to(cards[0])
        self.router.to(cards[0])

    def forward(self, x):
        flat = self.norm(x).flatten(0, 1)
        probs = self.router(flat).softmax(-1)
        weight, choice = probs.topk(self.top, dim=-1)
        result = torch.zeros_like(flat)
        for e, (expert, card) in enumerate(zip(self.experts, self.experts.cards)):
            rows, slot = torch.where(choice == e)
            if len(rows) == 0:
                continue
            share = weight[rows, slot].unsqueeze(-1)
            tokens = flat[rows].to(card)
            rows = rows.to(card)
            y = expert(tokens, rows)
            y = y.to(flat.device) * share
            result.index_add_(0, rows, y)
        return x + result.view_as(x)


class MoEConfig:
    def __init__(self, dim=24, n_expert=4, top=2, depth=2, cards=("cuda:0", "cuda:1")):
        self.dim, self.n_expert, self.top, self.depth, self.cards = dim, n_expert, top, depth, cards


class RouteModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(64, cfg.dim).to(cfg.cards[0])
        self.layers = nn.ModuleList(
            SparseLayer(cfg.dim, cfg.n_expert, cfg.top, cfg.cards) for _ in range(cfg.depth)
        )
        self.head = nn.Linear(cfg.dim, 64).to(cfg.cards[0])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = RouteModel(MoEConfig())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        ids = torch.randint(0, 64, (4, 17), device="cuda:0")
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
