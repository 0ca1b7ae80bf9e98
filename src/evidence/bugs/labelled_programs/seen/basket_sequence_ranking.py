# cause: lm-head-or-tied-weight-split
# guilty: self.items.weight (items.weight, table)
# line: 53
# repair: score where the shared table lives: h.to(self.items.weight.device) @ self.items.weight.t() in rank_all() OR put the item table on the card of the last block and send the ids there OR keep a copy of the table, self.items.weight.to(h.device), for the ranking
"""Sequential recommendation: the item table is both input embedding and output weight, blocks sit on a second card."""
import torch
from torch import nn
from torch.nn import functional as F


class CausalBlock(nn.Module):
    def __init__(self, dim, heads=2, dropout=0.1):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attend = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, h, mask):
        x = self.norm1(h)
        h = h + self.attend(x, x, x, attn_mask=mask, need_weights=False)[0]
        return h + self.feed(self.norm2(h))


class BasketModel(nn.Module):
    def __init__(self, n_items=200, dim=32, depth=2, max_len=20, table_card="cuda:0", block_card="cuda:1"):
        super().__init__()
        self.block_card = torch.device(block_card)
        self.items = nn.Embedding(n_items, dim, padding_idx=0).to(table_card)
        self.slots = nn.Embedding(max_len, dim).to(table_card)
        self.blocks = nn.ModuleList(CausalBlock(dim) for _ in range(depth)).to(block_card)
        self.norm = nn.LayerNorm(dim).to(block_card)

    @property
    def table_card(self):
        return self.items.weight.device

    def encode(self, history):
        slots = torch.arange(history.size(1), device=history.device)
        h = (self.items(history) + self.slots(slots)).to(self.block_card)
        mask = torch.ones(history.size(1), history.size(1), dtype=torch.bool, device=h.device).triu(1)
        for block in self.blocks:
            h = block(h, mask)
        return self.norm(h)

    def pair_scores(self, history, positive, negative):
        h = self.encode(history)
        good = self.items(positive).to(h.device)
        bad = self.items(negative).to(h.device)
        return (h * good).sum(-1), (h * bad).sum(-1)

    def rank_all(self, history):
        h = self.encode(history)[:, -1]
        return h @ self.items.weight.t()


def sample_sessions(n, length, n_items, generator):
    start = torch.randint(1, n_items, (n, 1), generator=generator)
    steps = torch.randint(1, 4, (n, length), generator=generator).cumsum(1)
    return (start + steps) % (n_items - 1) + 1


def train(model, sessions, epochs=3, batch=32):
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for chunk in sessions[torch.randperm(len(sessions))].split(batch):
            chunk = chunk.to(model.table_card)
            history, positive = chunk[:, :-2], chunk[:, 1:-1]
            negative = torch.randint(1, model.items.num_embeddings, positive.shape, device=positive.device)
            good, bad = model.pair_scores(history, positive, negative)
            loss = F.softplus(bad - good).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chunk)
        print(f"epoch {epoch} loss {total / len(sessions):.3f}")


@torch.no_grad()
def evaluate(model, sessions, k=10):
    model.eval()
    hits, gain = 0, 0.0
    for chunk in sessions.split(64):
        chunk = chunk.to(model.table_card)
        scores = model.rank_all(chunk[:, 1:-1])
        scores[:, 0] = float("-inf")
        truth = chunk[:, -1].to(scores.device)
        place = (scores > scores.gather(1, truth[:, None])).sum(1)
        hits += (place < k).sum().item()
        gain += ((place < k) / torch.log2(place + 2.0)).sum().item()
    return hits / len(sessions), gain / len(sessions)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(5)
    model = BasketModel()
    train(model, sample_sessions(256, 16, 200, g))
    print("hit rate, ndcg", evaluate(model, sample_sessions(128, 16, 200, g)))


if __name__ == "__main__":
    main()
