# cause: extra-input-on-wrong-device
# guilty: lengths
"""Sentiment of short reviews with a packed bidirectional GRU."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

REVIEWS = [
    ("a warm and funny film", 1), ("dull from start to finish", 0), ("i loved every minute", 1),
    ("the plot makes no sense at all", 0), ("great cast", 1), ("a waste of a great cast", 0),
    ("funny warm and clever", 1), ("no", 0),
]
WORDS = {w: i + 1 for i, w in enumerate(sorted({w for text, _ in REVIEWS for w in text.split()}))}


def to_batch(rows):
    ids = [torch.tensor([WORDS[w] for w in text.split()]) for text, _ in rows]
    return {
        "ids": pad_sequence(ids, batch_first=True),
        "lengths": torch.tensor([len(i) for i in ids]),
        "labels": torch.tensor([label for _, label in rows], dtype=torch.float32),
    }


class Classifier(nn.Module):
    def __init__(self, words, dim=16, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(words + 1, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(2 * hidden, 1)

    def forward(self, ids, lengths):
        x = self.drop(self.embed(ids))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.rnn(packed)
        return self.out(torch.cat([last[0], last[1]], dim=1)).squeeze(1)


def on(batch, device):
    return {name: value.to(device, non_blocking=True) for name, value in batch.items()}


def main():
    torch.manual_seed(28)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Classifier(len(WORDS)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(REVIEWS, batch_size=4, shuffle=True, collate_fn=to_batch)
    for epoch in range(3):
        for batch in loader:
            batch = on(batch, device)
            logits = model(batch["ids"], batch["lengths"])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch["labels"])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
