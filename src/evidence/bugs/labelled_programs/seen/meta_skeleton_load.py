# cause: meta-tensor-not-materialized
# guilty: model (table, self.place.table)
# line: 58
# repair: in Skeleton.load make the missing buffer real before the move (rebuild SinePlaces.table on a real device), OR use model.to_empty(device=device) before load_state_dict and compute the table again OR register the table as persistent so that the checkpoint holds it
"""Fast loader: build without memory, assign the weights of the file, then move."""
import io

import torch
import torch.nn as nn


class SinePlaces(nn.Module):
    def __init__(self, dim, longest=128):
        super().__init__()
        rate = torch.exp(-torch.arange(0, dim, 2) * (9.21 / dim))
        angle = torch.arange(longest)[:, None] * rate
        table = torch.cat([angle.sin(), angle.cos()], dim=-1)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Tagger(nn.Module):
    def __init__(self, vocab=90, dim=32, tags=7):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = SinePlaces(dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.tags = nn.Linear(dim, tags)

    def forward(self, ids):
        return self.tags(self.encoder(self.place(self.embed(ids))))


class Skeleton:
    """Loads a checkpoint without ever holding the random first weights."""

    def __init__(self, factory):
        self.factory = factory

    def build(self):
        with torch.device("meta"):
            return self.factory()

    def load(self, file, device):
        model = self.build()
        state = torch.load(file, map_location="cpu", mmap=False)
        missing, unexpected = model.load_state_dict(state, strict=True, assign=True)
        if missing or unexpected:
            raise KeyError(f"missing {missing}, unexpected {unexpected}")
        return self.finish(model, device)

    def finish(self, model, device):
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        return model.to(device).eval()


def write_checkpoint():
    file = io.BytesIO()
    torch.save(Tagger().state_dict(), file)
    file.seek(0)
    return file


def tag(model, sentences, device):
    longest = max(len(s) for s in sentences)
    ids = torch.zeros(len(sentences), longest, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.tensor(sentence)
    best = model(ids.to(device)).argmax(-1).tolist()
    return [row[: len(s)] for row, s in zip(best, sentences)]


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = Skeleton(Tagger).load(write_checkpoint(), device)
    for row in tag(model, [[4, 8, 15], [16, 23, 42, 8, 5]], device):
        print(row)
