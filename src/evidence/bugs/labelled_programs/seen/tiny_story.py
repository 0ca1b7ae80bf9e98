# cause: input-not-on-embedding-device
# guilty: tok
"""Story continuation with a recurrent model cut over two cards."""
import torch
from torch import nn

ALPHABET = " abcdefghijklmnopqrstuvwxyz.,"


class Story(nn.Module):
    def __init__(self, size=len(ALPHABET), width=48):
        super().__init__()
        self.embed = nn.Embedding(size, width)
        self.low = nn.GRU(width, width, batch_first=True)
        self.high = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, size)
        self.cards = None

    def place(self, a, b):
        self.embed.to(a)
        self.low.to(a)
        self.high.to(b)
        self.head.to(b)
        self.cards = (a, b)
        return self

    def forward(self, tok, state=(None, None)):
        x = self.embed(tok)
        x, s0 = self.low(x, state[0])
        x, s1 = self.high(x.to(self.cards[1]), state[1])
        return self.head(x), (s0, s1)


def encode(text):
    return torch.tensor([[ALPHABET.index(c) for c in text]])


def decode(row):
    return "".join(ALPHABET[i] for i in row)


@torch.no_grad()
def go_on(model, text, chars=12, heat=0.8):
    logits, state = model(encode(text).to(model.cards[0]))
    picked = []
    while True:
        p = (logits[:, -1] / heat).softmax(dim=-1)
        nxt = torch.multinomial(p, 1)
        picked.append(nxt.item())
        if len(picked) == chars:
            return text + decode(picked)
        logits, state = model(nxt, state)


def main():
    torch.manual_seed(12)
    model = Story().place(torch.device("cuda:0"), torch.device("cuda:1")).eval()
    for opening in ("once upon a time", "the night was", "a fox,"):
        print(go_on(model, opening))


if __name__ == "__main__":
    main()
