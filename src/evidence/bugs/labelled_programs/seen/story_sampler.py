# cause: generation-helper-on-wrong-device
# guilty: self.ids
import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab=60, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, ids, h=None):
        y, h = self.rnn(self.emb(ids), h)
        return self.out(y), h


class TopP:
    def __init__(self, p):
        self.p = p

    def __call__(self, logits):
        probs, order = logits.softmax(-1).sort(descending=True)
        drop = probs.cumsum(-1) - probs > self.p
        probs = probs.masked_fill(drop, 0.0)
        pick = torch.multinomial(probs, 1)
        return order.gather(-1, pick)


class StopOnTokens:
    def __init__(self, ids):
        self.ids = torch.tensor(ids)

    def __call__(self, token):
        return (token == self.ids).any(dim=-1)


class MaxLength:
    def __init__(self, n):
        self.n, self.i = n, 0

    def __call__(self, token):
        self.i += 1
        return torch.full((token.size(0),), self.i >= self.n, device=token.device)


@torch.no_grad()
def write(model, prompt, warp, stops, pad=0):
    ids, h, chunk = prompt, None, prompt
    done = torch.zeros(prompt.size(0), dtype=torch.bool, device=prompt.device)
    while not done.all():
        logits, h = model(chunk, h)
        token = warp(logits[:, -1])
        token = token.masked_fill(done.unsqueeze(1), pad)
        ids = torch.cat([ids, token], dim=1)
        for stop in stops:
            done = done | stop(token)
        chunk = token
    return ids


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    model = TinyLM().to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    text = torch.randint(3, 60, (4, 30)).to(device)
    for _ in range(5):
        logits, _ = model(text[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    prompt = torch.tensor([[5, 9], [7, 7]], device=device)
    out = write(model, prompt, TopP(0.9), [MaxLength(12), StopOnTokens([1, 2, 30])])
    print(out.tolist())


if __name__ == "__main__":
    main()
