# cause: extra-input-on-wrong-device
# guilty: box (batch.boxes, words["bbox"], bbox)
# line: 46
# repair: let FormBatch.to move every tensor of the encoding, also those whose names are in `extras` (bbox, segment), or send bbox to the device of self.x_table.weight in LayoutEmbedding.forward
"""Layout-aware token tagger: the tokenizer output carries boxes and segments beside the ids."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FormTokenizer:
    def __init__(self, vocab=200):
        self.vocab = vocab

    def __call__(self, pages):
        width = max(len(p) for p in pages)
        encoding = {"input_ids": [], "attention_mask": [], "bbox": []}
        for page in pages:
            ids = [hash_word(w) % (self.vocab - 1) + 1 for w, _ in page]
            pad = width - len(ids)
            encoding["input_ids"].append(ids + [0] * pad)
            encoding["attention_mask"].append([1] * len(ids) + [0] * pad)
            encoding["bbox"].append([list(b) for _, b in page] + [[0, 0]] * pad)
        return FormBatch({k: torch.tensor(v) for k, v in encoding.items()})


def hash_word(word):
    return sum(ord(c) * (i + 7) for i, c in enumerate(word))


class FormBatch(dict):
    main = ("input_ids", "attention_mask")

    def to(self, device):
        return FormBatch({k: v.to(device) if k in self.main else v for k, v in self.items()})


class LayoutEmbedding(nn.Module):
    def __init__(self, vocab, dim, grid=64):
        super().__init__()
        self.word = nn.Embedding(vocab, dim, padding_idx=0)
        self.x_table, self.y_table = nn.Embedding(grid, dim), nn.Embedding(grid, dim)

    def forward(self, ids, bbox):
        box = bbox.clamp(0, 63)
        place = self.x_table(box[..., 0])
        return self.word(ids) + place + self.y_table(box[..., 1])


class Tagger(nn.Module):
    def __init__(self, vocab=200, dim=32, labels=4):
        super().__init__()
        self.embed = LayoutEmbedding(vocab, dim)
        self.mix = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.out = nn.Linear(dim, labels)

    def forward(self, input_ids, attention_mask, bbox):
        hidden = self.mix(self.embed(input_ids, bbox), src_key_padding_mask=attention_mask == 0)
        return self.out(hidden)


class Ensemble:
    """One tagger per card, probabilities averaged on the host."""

    def __init__(self, cards):
        self.members = [(Tagger().to(card).eval(), card) for card in cards]

    @torch.no_grad()
    def __call__(self, batch):
        votes = [F.softmax(model(**batch.to(card)), -1).cpu() for model, card in self.members]
        return torch.stack(votes).mean(0).argmax(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    pages = [[("Total", (3, 40)), ("12.50", (30, 40))],
             [("Date", (2, 5)), ("1", (10, 5)), ("May", (14, 5))]]
    print(Ensemble(["cuda:0", "cuda:1"])(FormTokenizer()(pages)).tolist())
