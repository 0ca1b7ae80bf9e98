# cause: cache-or-beam-state-on-wrong-device
# guilty: state
"""Greedy streaming transducer: encoder on one card, predictor and joiner on the other."""
from dataclasses import dataclass, field

import torch
from torch import nn


class Transducer(nn.Module):
    def __init__(self, mel=20, hidden=24, vocab=15):
        super().__init__()
        self.vocab = vocab
        self.encoder = nn.GRU(mel, hidden, batch_first=True)
        self.embed = nn.Embedding(vocab, hidden)
        self.predictor = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True)
        self.joiner = nn.Linear(2 * hidden, vocab)

    @property
    def device(self):
        return next(self.parameters()).device

    def place(self, front, back):
        self.encoder.to(front)
        for part in (self.embed, self.predictor, self.joiner):
            part.to(back)
        self.back = torch.device(back)
        return self

    def initial_state(self, batch):
        shape = (self.predictor.num_layers, batch, self.predictor.hidden_size)
        return (torch.zeros(shape, device=self.device), torch.zeros(shape, device=self.device))


@dataclass
class Session:
    model: Transducer
    batch: int = 1
    enc_state: torch.Tensor = None
    hyps: list = field(default_factory=list)

    def __post_init__(self):
        self.pred_state = self.model.initial_state(self.batch)
        self.last = torch.zeros(self.batch, 1, dtype=torch.long, device=self.model.back)

    @torch.no_grad()
    def accept(self, chunk):
        m = self.model
        frames, self.enc_state = m.encoder(chunk.to(m.device), self.enc_state)
        frames = frames.to(m.back)
        for t in range(frames.size(1)):
            state = self.pred_state
            pred, new_state = m.predictor(m.embed(self.last), state)
            logits = m.joiner(torch.cat([frames[:, t], pred[:, 0]], dim=-1))
            token = logits.argmax(-1, keepdim=True)
            if int(token[0, 0]) != 0:
                self.last, self.pred_state = token, new_state
                self.hyps.append(int(token[0, 0]))


def microphone(chunks=3):
    for _ in range(chunks):
        yield torch.randn(1, 6, 20)


if __name__ == "__main__":
    torch.manual_seed(3)
    model = Transducer().place("cuda:0", "cuda:1").eval()
    session = Session(model)
    for piece in microphone():
        session.accept(piece)
    print(session.hyps)
