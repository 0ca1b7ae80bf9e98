# cause: extra-input-on-wrong-device|block-split-across-devices
# guilty: hidden_from (memory_pad, hidden_from[:, None, :])
# line: 18
# repair: in Summariser.forward send the padding mask along with the memory: memory_pad = pad.to(self.second) OR in CrossAttention.forward use hidden_from.to(score.device)
"""Document summariser: encoder on the first card, decoder on the second."""
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.scale = dim ** -0.5

    def forward(self, x, memory, hidden_from):
        score = self.q(x) @ self.k(memory).transpose(1, 2) * self.scale
        score = score.masked_fill(hidden_from[:, None, :], float("-inf"))
        return score.softmax(-1) @ self.v(memory)


class Encoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.attend = CrossAttention(dim)
        self.ff = nn.Linear(dim, dim)

    def forward(self, ids, pad):
        h = self.embed(ids)
        h = h + self.attend(h, h, pad)
        return h + self.ff(h).relu()


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.attend = CrossAttention(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, memory, pad):
        h, _ = self.rnn(self.embed(ids))
        return self.head(h + self.attend(h, memory, pad))


class Summariser(nn.Module):
    def __init__(self, vocab=200, dim=48, first="cuda:0", second="cuda:1"):
        super().__init__()
        self.first, self.second = torch.device(first), torch.device(second)
        self.encoder = Encoder(vocab, dim).to(self.first)
        self.decoder = Decoder(vocab, dim).to(self.second)

    def forward(self, document, summary):
        document = document.to(self.first)
        memory_pad = document.eq(0)
        memory = self.encoder(document, memory_pad)
        return self.decoder(summary.to(self.second), memory.to(self.second), memory_pad)


def fake_batch(n=4):
    doc = torch.randint(1, 200, (n, 20))
    doc[1:, 15:] = 0
    return doc, torch.randint(1, 200, (n, 7))


if __name__ == "__main__":
    torch.manual_seed(3)
    model = Summariser()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        doc, target = fake_batch()
        logits = model(doc, target[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
