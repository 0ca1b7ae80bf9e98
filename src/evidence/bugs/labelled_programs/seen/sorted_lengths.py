# cause: extra-input-on-wrong-device|not-a-device-error|cross-device-operands
# guilty: lengths (batch.lengths)
"""Recurrent sentiment over packed sequences."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


class Batch:
    def __init__(self, ids, lengths, labels):
        self.ids, self.lengths, self.labels = ids, lengths, labels

    def to(self, device):
        return Batch(self.ids.to(device), self.lengths.to(device), self.labels.to(device))


def collate(samples):
    seqs, labels = zip(*samples)
    lengths = torch.tensor([len(s) for s in seqs])
    return Batch(pad_sequence(seqs, batch_first=True), lengths, torch.tensor(labels))


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(200, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 48, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, 2)

    def forward(self, batch):
        packed = pack_padded_sequence(self.words(batch.ids), batch.lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.head(torch.cat([h[0], h[1]], -1))


reviews = [(torch.randint(1, 200, (n,)), n % 2) for n in (5, 9, 3, 12, 7, 8)]
loader = torch.utils.data.DataLoader(reviews, batch_size=3, collate_fn=collate)
device = torch.device("cuda:0")
net = Sentiment().to(device)
opt = torch.optim.Adam(net.parameters())
for batch in loader:
    batch = batch.to(device)
    loss = nn.functional.cross_entropy(net(batch), batch.labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
