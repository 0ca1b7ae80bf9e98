# cause: generation-helper-on-wrong-device
# guilty: self.counts
"""Sample melodies from a note-level GRU, damping notes that were played too often."""
import torch
from torch import nn


class NoteModel(nn.Module):
    def __init__(self, notes=24, dim=20):
        super().__init__()
        self.embed = nn.Embedding(notes, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, notes)

    def forward(self, notes, state=None):
        y, state = self.rnn(self.embed(notes), state)
        return self.out(y[:, -1]), state


class FrequencyPenalty:
    def __init__(self, strength):
        self.strength = strength
        self.counts = None

    def reset(self, prompt, notes):
        history = torch.tensor(prompt)
        self.counts = torch.zeros(history.size(0), notes)
        self.counts.scatter_add_(1, history, torch.ones(history.shape))

    def __call__(self, scores):
        return scores - self.strength * self.counts

    def played(self, chosen):
        for row, note in enumerate(chosen.tolist()):
            self.counts[row, note] += 1


class TopK:
    def __init__(self, k):
        self.k = k

    def reset(self, prompt, notes):
        pass

    def __call__(self, scores):
        edge = scores.topk(self.k, dim=-1).values[:, -1:]
        return scores.masked_fill(scores < edge, float("-inf"))

    def played(self, chosen):
        pass


@torch.no_grad()
def compose(model, prompt, length, warpers, temperature=1.0):
    device = model.out.weight.device
    notes = torch.tensor(prompt, device=device)
    for w in warpers:
        w.reset(prompt, model.out.out_features)
    scores, state = model(notes)
    tune = [notes]
    for _ in range(length):
        scores = scores / torch.tensor(temperature)
        for w in warpers:
            scores = w(scores)
        chosen = torch.multinomial(scores.softmax(-1), 1)
        for w in warpers:
            w.played(chosen[:, 0])
        tune.append(chosen)
        scores, state = model(chosen, state)
    return torch.cat(tune, dim=1).cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = NoteModel().to("cuda:1").eval()
    print(compose(net, [[1, 5, 8], [3, 3, 10]], 12, [TopK(8), FrequencyPenalty(0.4)]))
