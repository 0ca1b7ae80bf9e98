# cause: numpy-of-gpu-tensor
# guilty: repeats (path.repeats, counts)
# line: 58
# repair: in Aligner.collapse keep the run lengths as Python numbers, repeats=counts.tolist() (or counts.cpu()), as it is done for the symbols OR sum on the card with torch.cumsum before going to NumPy
"""Transcribes a queue of recordings with a CTC network and reports start and end of each word."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Path:
    symbols: list
    repeats: list
    confidence: float


class Recogniser(nn.Module):
    def __init__(self, bands=40, dim=48, symbols=29):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(bands, dim, 5, 2, 2), nn.GELU(), nn.Conv1d(dim, dim, 5, 1, 2), nn.GELU())
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, symbols)

    def forward(self, mels):
        x = self.front(mels).transpose(1, 2)
        return self.out(self.rnn(x)[0]).log_softmax(-1)


class TwoCardQueue:
    """Hands the recordings alternately to a copy of the network on each card."""

    def __init__(self, build, cards):
        self.copies = []
        for card in cards:
            torch.manual_seed(0)
            self.copies.append((build().to(card).eval(), card))
        self.turn = 0

    def __call__(self, mels):
        model, card = self.copies[self.turn % len(self.copies)]
        self.turn += 1
        return model(mels.to(card))


class Aligner:
    def __init__(self, frame_seconds, blank=0, space=1):
        self.frame_seconds, self.blank, self.space = frame_seconds, blank, space

    def collapse(self, log_probs):
        best, where = log_probs.max(-1)
        symbols, counts = torch.unique_consecutive(where, return_counts=True)
        return Path(symbols.tolist(), list(counts), best.exp().mean().item())

    def offsets(self, path):
        ends = np.asarray(path.repeats).cumsum()
        starts = np.concatenate([[0], ends[:-1]])
        return starts * self.frame_seconds, ends * self.frame_seconds

    def words(self, path):
        starts, ends = self.offsets(path)
        word, found = [], []
        for symbol, start, end in zip(path.symbols, starts, ends):
            if symbol in (self.blank, self.space):
                if word and symbol == self.space:
                    found.append(self.finish(word))
                    word = []
                continue
            word.append((symbol, start, end))
        if word:
            found.append(self.finish(word))
        return found

    def finish(self, word):
        text = "".join(chr(ord("a") + (s - 2) % 26) for s, _, _ in word)
        return text, round(float(word[0][1]), 2), round(float(word[-1][2]), 2)


@torch.no_grad()
def main():
    torch.manual_seed(1)
    queue = TwoCardQueue(Recogniser, ["cuda:0", "cuda:1"])
    aligner = Aligner(frame_seconds=0.02)
    for number, frames in enumerate((120, 80, 160)):
        log_probs = queue(torch.randn(1, 40, frames))[0]
        path = aligner.collapse(log_probs)
        print("recording", number, "confidence", round(path.confidence, 3), "symbols", len(path.symbols))
        for text, start, end in aligner.words(path)[:3]:
            print("  ", text, start, end)


if __name__ == "__main__":
    main()
