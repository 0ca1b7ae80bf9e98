# cause: optimizer-state-on-other-device|optimizer-built-before-move
# guilty: optimizer (exp_avg or exp_avg_sq or state['exp_avg'] or exp_avgs or optimizer.state)
import os
import tempfile

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 8
CHARS = sorted(set(TEXT))


class CharLM(nn.Module):
    def __init__(self, vocab, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(h)


def batches(device, steps, length=20, size=4):
    data = torch.tensor([CHARS.index(c) for c in TEXT])
    for _ in range(steps):
        start = torch.randint(len(data) - length - 1, (size,))
        chunk = torch.stack([data[s : s + length + 1] for s in start.tolist()])
        yield chunk[:, :-1].to(device), chunk[:, 1:].to(device)


def fit(model, optimizer, device, steps):
    model.train()
    last = 0.0
    for x, y in batches(device, steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).transpose(1, 2), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        last = loss.item()
    return last


def save(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optim": optimizer.state_dict(), "step": step}, path)


def restore(path):
    state = torch.load(path, map_location="cpu")
    model = CharLM(len(CHARS))
    model.load_state_dict(state["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    optimizer.load_state_dict(state["optim"])
    return model, optimizer, state["step"]


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    path = os.path.join(tempfile.mkdtemp(), "char_lm.pt")

    model = CharLM(len(CHARS)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    print("first session", fit(model, optimizer, device, 5))
    save(path, model, optimizer, 5)

    model, optimizer, step = restore(path)
    model.to(device)
    print("second session from step", step, fit(model, optimizer, device, 5))


if __name__ == "__main__":
    main()
