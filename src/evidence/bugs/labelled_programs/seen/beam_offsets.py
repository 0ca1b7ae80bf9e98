# cause: generation-helper-on-wrong-device|cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.offset (offset or base)
"""Recipe title generation, batched beam search."""
import torch
from torch import nn


class TitleModel(nn.Module):
    def __init__(self, vocab=90, d=40):
        super().__init__()
        self.vocab = vocab
        self.ingredients = nn.EmbeddingBag(200, d)
        self.tok = nn.Embedding(vocab, d)
        self.cell = nn.GRUCell(d, d)
        self.out = nn.Linear(d, vocab)


class BatchedBeam:
    def __init__(self, model, batch, beams, length):
        self.model, self.batch, self.beams, self.length = model, batch, beams, length
        self.offset = (torch.arange(batch) * beams).repeat_interleave(beams)

    @torch.no_grad()
    def decode(self, ingredients):
        m = self.model
        h = m.ingredients(ingredients).repeat_interleave(self.beams, 0)
        seqs = torch.ones(self.batch * self.beams, 1, dtype=torch.long, device=h.device)
        score = torch.zeros(self.batch, self.beams, device=h.device)
        score[:, 1:] = float("-inf")
        for _ in range(self.length):
            h = m.cell(m.tok(seqs[:, -1]), h)
            step = m.out(h).log_softmax(-1).view(self.batch, self.beams, -1)
            total = (score[..., None] + step).flatten(1)
            score, flat = total.topk(self.beams, dim=1)
            parent = torch.div(flat, m.vocab, rounding_mode="floor").flatten() + self.offset
            token = (flat % m.vocab).flatten()
            seqs = torch.cat([seqs[parent], token[:, None]], 1)
            h = h[parent]
        return seqs.view(self.batch, self.beams, -1)[:, 0, 1:]


def main():
    dev = torch.device("cuda:0")
    model = TitleModel().to(dev).eval()
    beam = BatchedBeam(model, batch=3, beams=4, length=5)
    for _ in range(2):
        print(beam.decode(torch.randint(0, 200, (3, 8)).to(dev)).tolist())


main()
