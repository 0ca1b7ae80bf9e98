import torch
from torch import nn


class Collator:
    def __init__(self, pad=0):
        self.pad = pad

    def __call__(self, rows):
        length = max(map(len, rows))
        padded = [row + [self.pad] * (length - len(row)) for row in rows]
        return {"input_ids": torch.tensor(padded).to("cuda")}
