# cause: cache-or-beam-state-on-wrong-device|block-split-across-devices
# guilty: state (h or c)
import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d, num_layers=2, batch_first=True)

    def forward(self, src):
        _, (h, c) = self.rnn(self.emb(src))
        return h, c


class Decoder(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d, num_layers=2, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, tgt, state):
        y, state = self.rnn(self.emb(tgt), state)
        return self.out(y), state


class Translator(nn.Module):
    def __init__(self, vocab=90, d=48, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.d0, self.d1 = devices
        self.encoder = Encoder(vocab, d).to(self.d0)
        self.decoder = Decoder(vocab, d).to(self.d1)

    def forward(self, src, tgt):
        state = self.encoder(src.to(self.d0))
        logits, _ = self.decoder(tgt.to(self.d1), state)
        return logits


if __name__ == "__main__":
    nmt = Translator()
    opt = torch.optim.Adam(nmt.parameters(), lr=1e-3)
    for _ in range(3):
        src = torch.randint(0, 90, (8, 15))
        tgt = torch.randint(0, 90, (8, 11))
        logits = nmt(src, tgt[:, :-1])
        gold = tgt[:, 1:].to(logits.device)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), gold)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{loss.item():.3f}")
