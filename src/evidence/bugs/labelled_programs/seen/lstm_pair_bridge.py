# cause: cache-or-beam-state-on-wrong-device|block-split-across-devices
# guilty: state (cell, c)
# line: 47
# repair: in Bridge.forward move both parts of the state, cell.to(self.target) as well as hidden OR in Writer.step move state to x.device before the call
"""Translation of digit strings: reader on one card, writer on the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS = 12
START = 11


class Reader(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.rnn = nn.LSTM(dim, dim, layers, batch_first=True)

    def forward(self, ids):
        return self.rnn(self.embed(ids))


class Bridge(nn.Module):
    """Turns the last state of the reader into the first one of the writer."""

    def __init__(self, dim, source, target):
        super().__init__()
        self.target = torch.device(target)
        self.dense = nn.Linear(dim, dim).to(source)

    def forward(self, memory, state):
        hidden, cell = state
        hidden = torch.tanh(self.dense(hidden)).to(self.target)
        return memory.to(self.target), (hidden, cell)


class Writer(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.rnn = nn.LSTM(dim, dim, layers, batch_first=True)
        self.out = nn.Linear(2 * dim, WORDS)

    def step(self, ids, memory, state):
        x = self.embed(ids)
        x, state = self.rnn(x, state)
        focus = (x @ memory.transpose(1, 2)).softmax(-1) @ memory
        return self.out(torch.cat([x, focus], dim=-1)), state


class Translator(nn.Module):
    def __init__(self, dim=32, layers=2, read_on="cuda:0", write_on="cuda:1"):
        super().__init__()
        self.read_on, self.write_on = torch.device(read_on), torch.device(write_on)
        self.reader = Reader(dim, layers).to(self.read_on)
        self.bridge = Bridge(dim, self.read_on, self.write_on)
        self.writer = Writer(dim, layers).to(self.write_on)

    def forward(self, source, target):
        memory, state = self.bridge(*self.reader(source.to(self.read_on)))
        begin = torch.full_like(target[:, :1], START)
        shifted = torch.cat([begin, target[:, :-1]], dim=1).to(self.write_on)
        logits, _ = self.writer.step(shifted, memory, state)
        return F.cross_entropy(logits.flatten(0, 1), target.to(self.write_on).flatten())

    @torch.no_grad()
    def translate(self, source):
        memory, state = self.bridge(*self.reader(source.to(self.read_on)))
        token = torch.full((len(source), 1), START, device=self.write_on)
        said = []
        for _ in range(source.shape[1]):
            logits, state = self.writer.step(token, memory, state)
            token = logits.argmax(-1)
            said.append(token)
        return torch.cat(said, dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(4):
        source = torch.randint(0, 10, (16, 6))
        loss = model(source, source.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    print(model.translate(torch.randint(0, 10, (2, 6))).tolist())
