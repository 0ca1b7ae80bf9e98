# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: state
import torch
from torch import nn

TEXT = "In the beginning the code was without form, and void; and bugs were upon the face of the deep. " * 12


class StatefulRNN(nn.Module):
    def __init__(self, vocab, d=24, h=48, layers=2):
        super().__init__()
        self.h, self.layers = h, layers
        self.emb = nn.Embedding(vocab, d)
        self.gru = nn.GRU(d, h, layers)
        self.out = nn.Linear(h, vocab)

    def init_state(self, batch):
        return torch.zeros(self.layers, batch, self.h)

    def forward(self, x, state):
        y, state = self.gru(self.emb(x), state)
        return self.out(y), state


def batchify(ids, n):
    length = len(ids) // n
    return ids[: length * n].view(n, length).t().contiguous()


def bptt_chunks(data, size):
    for i in range(0, data.size(0) - 1, size):
        n = min(size, data.size(0) - 1 - i)
        yield data[i:i + n], data[i + 1:i + 1 + n]


def train_epoch(model, data, opt, size=32):
    state = model.init_state(data.size(1))
    losses = []
    for x, y in bptt_chunks(data, size):
        state = state.detach()
        logits, state = model(x, state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    vocab = sorted(set(TEXT))
    lookup = {c: i for i, c in enumerate(vocab)}
    ids = torch.tensor([lookup[c] for c in TEXT]).to(device)
    data = batchify(ids, 8)
    model = StatefulRNN(len(vocab)).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for epoch in range(2):
        print(epoch, train_epoch(model, data, opt))
    scores = torch.zeros(len(vocab), device=device)
    scores.index_add_(0, ids, torch.ones(len(ids), device=device))
    print("most common:", repr(vocab[scores.argmax().item()]))


if __name__ == "__main__":
    main()
