import torch


class Decoder:
    def __init__(self, model, end=0):
        self.model, self.end = model, end

    def generate(self, ids, steps=3):
        unfinished = torch.ones(len(ids), dtype=torch.long)
        for _ in range(steps):
            scores = self.model(ids)[:, -1]
            chosen = scores.argmax(-1)
            chosen = chosen * unfinished
            ids = torch.cat([ids, chosen[:, None]], 1)
        return ids
