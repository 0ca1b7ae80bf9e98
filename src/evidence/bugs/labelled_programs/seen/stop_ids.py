# cause: generation-helper-on-wrong-device|hard-coded-device
# guilty: self.stop
import torch
import torch.nn as nn


class StopOn:
    def __init__(self, ids, max_new):
        self.stop = torch.tensor(sorted(ids), dtype=torch.long, device="cuda:0")
        self.max_new = max_new

    def finished(self, tokens, n_done):
        if n_done >= self.max_new:
            return torch.ones_like(tokens, dtype=torch.bool)
        return torch.isin(tokens, self.stop)


class CharLSTM(nn.Module):
    def __init__(self, n=28, h=32):
        super().__init__()
        self.h = h
        self.emb = nn.Embedding(n, h)
        self.cell = nn.LSTMCell(h, h)
        self.out = nn.Linear(h, n)

    def init_state(self, b):
        z = self.emb.weight.new_zeros(b, self.h)
        return z, z.clone()

    def forward(self, tok, state):
        state = self.cell(self.emb(tok), state)
        return self.out(state[0]), state


@torch.no_grad()
def sample(model, prompt, stop, temperature=0.9):
    state = model.init_state(prompt.size(0))
    for i in range(prompt.size(1)):
        logits, state = model(prompt[:, i], state)
    done = torch.zeros(prompt.size(0), dtype=torch.bool, device=prompt.device)
    result, n = [], 0
    while not bool(done.all()):
        probs = (logits / temperature).softmax(dim=-1)
        tok = torch.multinomial(probs, 1).squeeze(1)
        tok = tok.masked_fill(done, 0)
        result.append(tok)
        n += 1
        done = done | stop.finished(tok, n)
        logits, state = model(tok, state)
    return torch.stack(result, 1)


def main():
    torch.manual_seed(2)
    drafts, main_card = torch.device("cuda:0"), torch.device("cuda:1")
    judge = nn.Linear(28, 1).to(drafts)          # ranks the samples, lives on the other card
    lm = CharLSTM().to(main_card).eval()
    prompt = torch.randint(1, 27, (3, 4), device=main_card)
    text = sample(lm, prompt, StopOn({0, 27}, 10))
    counts = nn.functional.one_hot(text, 28).sum(1).float()
    order = judge(counts.to(drafts)).squeeze(1).argsort(descending=True)
    for row in text.cpu()[order.cpu()]:
        print("".join(chr(96 + c) for c in row.tolist()))


main()
