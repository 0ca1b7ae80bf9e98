# cause: generation-helper-on-wrong-device|lm-head-or-tied-weight-split
# guilty: self.done (self.pad, token)
# line: 56
# repair: in DecodeState.__init__ make done and pad on the device of the logits (pass model.exit) OR in TwoStageLM.forward return logits.to(ids.device) OR in DecodeState.commit move token to self.done.device first
"""Greedy decoding with a two-stage language model and early stop of finished rows."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class GenerationOptions:
    max_new: int = 6
    eos: int = 2
    pad: int = 0


class Stage(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, x, mask):
        return self.encoder(x, mask=mask)


class TwoStageLM(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.entry, self.exit = torch.device("cuda:0"), torch.device("cuda:1")
        self.embed = nn.Embedding(vocab, dim).to(self.entry)
        self.lower = Stage(dim, 2).to(self.entry)
        self.upper = Stage(dim, 2).to(self.exit)
        self.head = nn.Linear(dim, vocab).to(self.exit)

    def forward(self, ids):
        size = ids.shape[1]
        mask = torch.full((size, size), float("-inf"), device=self.entry).triu(1)
        x = self.lower(self.embed(ids.to(self.entry)), mask)
        x = self.upper(x.to(self.exit), mask.to(self.exit))
        return self.head(x[:, -1])


class DecodeState:
    """Rows that have met the end token are filled with padding from then on."""

    def __init__(self, prompt, options):
        self.options = options
        self.ids = prompt
        self.done = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
        self.pad = torch.full((prompt.shape[0],), options.pad, device=prompt.device)

    def commit(self, token):
        token = torch.where(self.done, self.pad, token)
        self.done = self.done | (token == self.options.eos)
        self.ids = torch.cat([self.ids, token[:, None]], dim=1)
        return bool(self.done.all())


class Decoder:
    def __init__(self, model, options=None):
        self.model = model.eval()
        self.options = options or GenerationOptions()

    @torch.inference_mode()
    def __call__(self, prompt):
        state = DecodeState(prompt.to(self.model.entry), self.options)
        for _ in range(self.options.max_new):
            logits = self.model(state.ids)
            if state.commit(logits.argmax(-1)):
                break
        return state.ids


if __name__ == "__main__":
    torch.manual_seed(0)
    decoder = Decoder(TwoStageLM())
    prompts = torch.randint(3, 50, (3, 5))
    for row in decoder(prompts).tolist():
        print(row)
