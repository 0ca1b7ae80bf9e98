# cause: extra-input-on-wrong-device
# guilty: segments (batch["segments"], segments[:, :, None])
# line: 80
# repair: in BatchMover move every tensor of the batch (for all keys: v.to(self.device) if torch.is_tensor(v)), or add "segments" to MODEL_KEYS
import torch
import torch.nn as nn
import torch.nn.functional as F

MODEL_KEYS = ("input_ids", "positions", "labels")


class PackingCollator:
    """Puts several dialogues in one row; `segments` tells them apart."""

    def __init__(self, length):
        self.length = length

    def __call__(self, dialogues):
        rows, row = [], []
        for d in dialogues:
            if sum(map(len, row)) + len(d) > self.length:
                rows.append(row)
                row = []
            row.append(d)
        rows.append(row)
        batch = {k: torch.zeros(len(rows), self.length, dtype=torch.long)
                 for k in ("input_ids", "positions", "segments", "labels")}
        batch["labels"].fill_(-100)
        for r, row in enumerate(rows):
            at = 0
            for s, d in enumerate(row, start=1):
                span = slice(at, at + len(d))
                batch["input_ids"][r, span] = torch.tensor(d)
                batch["positions"][r, span] = torch.arange(len(d))
                batch["segments"][r, span] = s
                batch["labels"][r, at:at + len(d) - 1] = torch.tensor(d[1:])
                at += len(d)
        batch["n_dialogues"] = len(dialogues)
        return batch


class BatchMover:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __iter__(self):
        for batch in self.loader:
            for key in MODEL_KEYS:
                batch[key] = batch[key].to(self.device)
            yield batch


class PackedLayer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class PackedLM(nn.Module):
    def __init__(self, vocab=90, dim=32, length=24, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = cards
        self.words = nn.Embedding(vocab, dim).to(cards[0])
        self.places = nn.Embedding(length, dim).to(cards[0])
        self.layers = nn.ModuleList(PackedLayer(dim).to(c) for c in cards)
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, input_ids, positions, segments):
        x = self.words(input_ids) + self.places(positions)
        n = input_ids.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        mask = causal & (segments[:, :, None] == segments[:, None, :])
        for layer, card in zip(self.layers, self.cards):
            x = layer(x.to(card), mask.unsqueeze(1).to(card))
        return self.head(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    talks = [torch.randint(1, 90, (int(n),)).tolist() for n in torch.randint(4, 14, (24,))]
    loader = torch.utils.data.DataLoader(talks, batch_size=8, collate_fn=PackingCollator(24))
    model = PackedLM()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch in BatchMover(loader, "cuda:0"):
        logits = model(batch["input_ids"], batch["positions"], batch["segments"])
        labels = batch["labels"].to(logits.device)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(batch["n_dialogues"], "dialogues", round(loss.item(), 3))
