# cause: input-not-on-embedding-device
# guilty: ids (batch["ids"], input)
# line: 35
# repair: let accelerate leave the loader's batches alone and send them to the model's first card: prepare(loader, device_placement=[False]) and ids.to(model.first), or write self.embed(ids.to(self.first)) OR place the reader from accelerator.device on (first=accelerator.device)
import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

# card 0 is shared with the display and the scorer, so the reader begins on card 1


class Clauses(Dataset):
    def __init__(self, n=48, length=18):
        g = torch.Generator().manual_seed(1)
        self.ids = torch.randint(1, 150, (n, length), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"ids": self.ids[i], "label": self.ids[i].sum() % 3}


class Reader(nn.Module):
    def __init__(self, first, second, vocab=150, dim=32, classes=3):
        super().__init__()
        self.first, self.second = first, second
        self.embed = nn.Embedding(vocab, dim).to(first)
        self.lower = nn.GRU(dim, dim, batch_first=True, bidirectional=True).to(first)
        self.upper = nn.GRU(2 * dim, dim, batch_first=True).to(second)
        self.head = nn.Linear(dim, classes).to(second)

    def forward(self, ids):
        h = self.embed(ids)
        h = self.lower(h)[0].to(self.second)
        return self.head(self.upper(h)[0][:, -1])


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in loader:
            guess = model(batch["ids"]).argmax(-1)
            right += (guess == batch["label"].to(guess.device)).sum().item()
            total += len(guess)
    return right / total


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = Reader("cuda:1", "cuda:0")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = DataLoader(Clauses(), batch_size=8, shuffle=True)
    model, optimizer = accelerator.prepare(model, optimizer, device_placement=[False, False])
    loader = accelerator.prepare(loader)
    for epoch in range(2):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                logits = model(batch["ids"])
                loss = nn.functional.cross_entropy(logits, batch["label"].to(logits.device))
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch} accuracy {evaluate(model, loader):.2f}")


if __name__ == "__main__":
    main()
