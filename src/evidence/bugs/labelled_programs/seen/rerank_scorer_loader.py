# cause: hard-coded-device|input-not-on-embedding-device|generator-or-default-device
# guilty: ids (self.tok(ids))
# line: 17
# repair: in load_scorer do not change the current device: remove torch.cuda.set_device(card) and use model.to(f"cuda:{card}") (or with torch.cuda.device(card)) OR in main send the ids to the writer's card: ids.to("cuda:0") in place of ids.cuda()
import torch
import torch.nn as nn


class Writer(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, 2, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids, state=None):
        x, state = self.rnn(self.tok(ids), state)
        return self.out(x[:, -1]), state


class Scorer(nn.Module):
    def __init__(self, vocab=64, dim=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, ids):
        return self.out(self.rnn(self.tok(ids))[0][:, -1]).squeeze(-1)


def load_writer(device="cuda:0"):
    return Writer().to(device).eval()


def load_scorer(card=1):
    torch.cuda.set_device(card)
    model = Scorer().cuda().eval()
    for p in model.parameters():
        p.requires_grad_(False)
    return model


@torch.no_grad()
def draft(writer, ids, n, samples, temperature=0.9):
    ids = ids.repeat_interleave(samples, 0)
    logits, state = writer(ids)
    for _ in range(n):
        token = torch.multinomial((logits / temperature).softmax(-1), 1)
        ids = torch.cat([ids, token], 1)
        logits, state = writer(token, state)
    return ids


@torch.no_grad()
def rerank(scorer, candidates, samples):
    device = scorer.out.weight.device
    scores = scorer(candidates.to(device)).view(-1, samples)
    best = scores.argmax(-1).cpu()
    rows = candidates.view(-1, samples, candidates.size(1)).cpu()
    return rows[torch.arange(rows.size(0)), best]


def prompts(n, length=6):
    g = torch.Generator().manual_seed(12)
    for _ in range(n):
        yield torch.randint(0, 64, (2, length), generator=g)


def main():
    torch.manual_seed(0)
    writer = load_writer()
    scorer = load_scorer()
    for ids in prompts(3):
        ids = ids.cuda()
        candidates = draft(writer, ids, n=5, samples=4)
        print(rerank(scorer, candidates, samples=4).tolist())


main()
