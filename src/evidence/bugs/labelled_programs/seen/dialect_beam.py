# cause: generation-helper-on-wrong-device|cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.finished (finished or self.done)
"""Speech translation decoder: length-normalised beam search as a small class."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.proj = nn.Linear(dim, vocab)

    def forward(self, tok, h):
        y, h = self.gru(self.emb(tok)[:, None], h)
        return self.proj(y[:, 0]).log_softmax(-1), h


class Search:
    def __init__(self, decoder, width, eos, max_len=8):
        self.decoder, self.width, self.eos, self.max_len = decoder, width, eos, max_len
        self.finished = torch.zeros(width, dtype=torch.bool)

    def start(self, state):
        dev = state.device
        self.tokens = torch.full((self.width, 1), 1, device=dev)
        self.scores = torch.full((self.width,), -1e9, device=dev)
        self.scores[0] = 0.0
        self.h = state.expand(-1, self.width, -1).contiguous()

    def advance(self):
        logp, self.h = self.decoder(self.tokens[:, -1], self.h)
        frozen = torch.full_like(logp, -1e9)
        frozen[:, self.eos] = 0.0
        logp = torch.where(self.finished.unsqueeze(1), frozen, logp)
        total = self.scores[:, None] + logp
        self.scores, flat = total.view(-1).topk(self.width)
        beam, tok = flat // logp.shape[1], flat % logp.shape[1]
        self.tokens = torch.cat([self.tokens[beam], tok[:, None]], 1)
        self.h = self.h[:, beam]
        self.finished = self.finished[beam] | (tok == self.eos)
        return bool(self.finished.all())

    def run(self, state):
        self.start(state)
        for _ in range(self.max_len):
            if self.advance():
                break
        return self.tokens[0]


def translate(frames, enc, dec):
    _, state = enc(frames)
    return Search(dec, width=4, eos=2).run(state)


if __name__ == "__main__":
    gpu = torch.device("cuda:1")
    enc, dec = nn.GRU(40, 64, batch_first=True).to(gpu), Decoder(120, 64).to(gpu)
    with torch.inference_mode():
        for _ in range(2):
            print(translate(torch.randn(1, 50, 40, device=gpu), enc, dec))
