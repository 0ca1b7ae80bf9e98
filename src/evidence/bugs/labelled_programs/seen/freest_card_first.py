# cause: input-not-on-embedding-device|hard-coded-device
# guilty: ids (batch["ids"])
"""Question tagging: the stage with the most weights goes to the card named last."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage(nn.Module):
    @property
    def device(self):
        return next(self.parameters()).device


class EmbedStage(Stage):
    def __init__(self, vocab, dim):
        super().__init__()
        self.table = nn.Embedding(vocab, dim, padding_idx=0)
        self.mix = nn.Linear(dim, dim)

    def forward(self, ids):
        return torch.tanh(self.mix(self.table(ids)))


class TagStage(Stage):
    def __init__(self, dim, tags):
        super().__init__()
        self.rnn = nn.LSTM(dim, dim // 2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(dim, tags)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


class Pipeline(nn.Module):
    def __init__(self, stages):
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def place(self, cards):
        """The heaviest stage gets the last card, nothing else runs there."""
        weights = [sum(p.numel() for p in s.parameters()) for s in self.stages]
        order = sorted(range(len(self.stages)), key=weights.__getitem__)
        for card, index in zip(cards, order):
            self.stages[index].to(card)
        return self

    def forward(self, ids):
        x = self.stages[0](ids)
        for stage in self.stages[1:]:
            x = stage(x.to(stage.device))
        return x


class Feeder:
    def __init__(self, rows, size, device):
        self.rows, self.size, self.device = rows, size, device

    def __iter__(self):
        for start in range(0, len(self.rows), self.size):
            part = self.rows[start:start + self.size]
            width = max(len(ids) for ids, _ in part)
            batch = {"ids": torch.zeros(len(part), width, dtype=torch.long),
                     "tags": torch.full((len(part), width), -100)}
            for i, (ids, tags) in enumerate(part):
                batch["ids"][i, :len(ids)] = torch.tensor(ids)
                batch["tags"][i, :len(tags)] = torch.tensor(tags)
            yield {k: v.to(self.device) for k, v in batch.items()}


def questions(n, vocab, tags, seed=0):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(n):
        length = int(torch.randint(5, 12, (1,), generator=g))
        ids = torch.randint(1, vocab, (length,), generator=g)
        rows.append((ids.tolist(), (ids % tags).tolist()))
    return rows


def train(pipeline, feeder, epochs=2):
    optimizer = torch.optim.Adam(pipeline.parameters(), lr=5e-3)
    for epoch in range(epochs):
        for batch in feeder:
            logits = pipeline(batch["ids"])
            loss = F.cross_entropy(logits.transpose(1, 2), batch["tags"].to(logits.device), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    cards = ["cuda:0", "cuda:1"]
    pipeline = Pipeline([EmbedStage(2000, 32), TagStage(32, 6)]).place(cards)
    train(pipeline, Feeder(questions(64, 2000, 6), size=16, device=cards[0]))
