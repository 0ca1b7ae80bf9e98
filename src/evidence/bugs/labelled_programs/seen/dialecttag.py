# cause: extra-input-on-wrong-device
# guilty: lengths
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


def collate(batch, device):
    x = pad_sequence([torch.tensor(s) for s, _ in batch], batch_first=True)
    lengths = torch.tensor([len(s) for s, _ in batch])
    y = torch.tensor([t for _, t in batch])
    return [t.to(device) for t in (x, lengths, y)]


class Tagger(nn.Module):
    def __init__(self, vocab=30, d=8, h=10, tags=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, h, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * h, tags)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        keep = (x != 0).unsqueeze(-1)
        return self.fc((out * keep).sum(1) / keep.sum(1))


def main():
    torch.manual_seed(0)
    device = "cuda:0"
    data = [([1, 4, 9], 0), ([2, 2, 5, 7, 8], 1), ([3], 2), ([11, 12], 1)]
    net = Tagger().to(device)
    opt = torch.optim.Adam(net.parameters(), 0.01)
    x, lengths, y = collate(data, device)
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(x, lengths), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
