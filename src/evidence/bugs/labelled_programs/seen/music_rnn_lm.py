# cause: input-not-on-embedding-device
# guilty: notes
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Melodies(Dataset):
    def __init__(self, n=64, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = [torch.randint(1, 49, (int(torch.randint(8, 20, (1,), generator=g)),), generator=g)
                     for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    notes = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"notes": notes[:, :-1], "target": notes[:, 1:], "lengths": [len(r) - 1 for r in rows]}


def to_device(batch, device):
    return {k: v.to(device, non_blocking=True) if torch.is_tensor(v) else v for k, v in batch.items()}


class MelodyLM(nn.Module):
    def __init__(self, vocab=49, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.rnn = nn.LSTM(d, d, num_layers=2, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, notes):
        h, _ = self.rnn(self.emb(notes))
        return self.out(h)


@torch.no_grad()
def improvise(model, start, steps, device):
    seq = torch.tensor([[start]], device=device)
    for _ in range(steps):
        probs = model(seq)[:, -1].softmax(-1)
        seq = torch.cat([seq, torch.multinomial(probs, 1)], dim=1)
    return seq[0].tolist()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = MelodyLM().to(device)
    print(improvise(model, 5, 6, device))
    loss_fn = nn.CrossEntropyLoss(ignore_index=0)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(2):
        for batch in DataLoader(Melodies(), batch_size=16, shuffle=True, collate_fn=collate):
            to_device(batch, device)
            logits = model(batch["notes"])
            loss = loss_fn(logits.flatten(0, 1), batch["target"].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())
    print(improvise(model, 5, 12, device))


if __name__ == "__main__":
    main()
