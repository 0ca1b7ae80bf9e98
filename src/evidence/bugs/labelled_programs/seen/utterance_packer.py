# cause: extra-input-on-wrong-device
# guilty: lengths (flen)
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class PhoneCTC(nn.Module):
    def __init__(self, n_mels=20, hidden=32, phones=12):
        super().__init__()
        self.rnn = nn.LSTM(n_mels, hidden, bidirectional=True, batch_first=True)
        self.cls = nn.Linear(2 * hidden, phones + 1)

    def forward(self, feats, lengths):
        packed = pack_padded_sequence(feats, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.cls(out).log_softmax(-1)


def collate(utts):
    feats = pad_sequence([u[0] for u in utts], batch_first=True)
    phones = pad_sequence([u[1] for u in utts], batch_first=True)
    flen = torch.tensor([len(u[0]) for u in utts])
    plen = torch.tensor([len(u[1]) for u in utts])
    return feats, phones, flen, plen


def fake_corpus(n):
    for _ in range(n):
        t = int(torch.randint(40, 70, ()))
        yield torch.randn(t, 20), torch.randint(1, 13, (t // 8,))


device = torch.device("cuda:0")
model = PhoneCTC().to(device)
ctc = nn.CTCLoss(zero_infinity=True)
opt = torch.optim.Adam(model.parameters(), 1e-3)
loader = torch.utils.data.DataLoader(list(fake_corpus(12)), batch_size=4, collate_fn=collate)
for batch in loader:
    feats, phones, flen, plen = [t.to(device) for t in batch]
    logp = model(feats, flen)
    loss = ctc(logp.transpose(0, 1), phones, flen, plen)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
