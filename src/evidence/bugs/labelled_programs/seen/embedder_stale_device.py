# cause: input-not-on-embedding-device|hard-coded-device
# guilty: ids (self.embed(ids))
# line: 35
# repair: in TextEmbedder.encode send the ids to the device of the weights, self.embed.weight.device (make device a property that reads next(self.parameters()).device) in place of the attribute stored in __init__
"""A sentence embedding library: build by name, encode in batches, compare two models."""
import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {"mini": dict(dim=16, depth=1), "base": dict(dim=32, depth=2)}


class CharTokenizer:
    def __init__(self, vocab=128, max_len=24):
        self.vocab, self.max_len = vocab, max_len

    def __call__(self, texts):
        rows = [[min(ord(c), self.vocab - 1) for c in t[: self.max_len]] for t in texts]
        width = max(len(r) for r in rows)
        return torch.tensor([r + [0] * (width - len(r)) for r in rows])


class TextEmbedder(nn.Module):
    def __init__(self, dim, depth, device="cuda:0"):
        super().__init__()
        self.device = torch.device(device)
        self.tokenizer = CharTokenizer()
        self.embed = nn.Embedding(128, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, dim * 2, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.to(self.device)

    def forward(self, ids):
        pad = ids == 0
        x = self.encoder(self.embed(ids), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1)
        return (x * keep).sum(1) / keep.sum(1)

    @torch.no_grad()
    def encode(self, texts, batch_size=2, normalize=True):
        rows = []
        for i in range(0, len(texts), batch_size):
            ids = self.tokenizer(texts[i:i + batch_size]).to(self.device)
            out = self(ids)
            rows.append(F.normalize(out, dim=-1) if normalize else out)
        return torch.cat(rows).cpu()


def load(name, **options):
    return TextEmbedder(**MODELS[name], **options).eval()


class PairScorer:
    """Averages the cosine scores of several embedders, one for each card."""

    def __init__(self, names, cards):
        self.embedders = [load(n) for n in names]
        for embedder, card in zip(self.embedders, cards):
            embedder.to(card)

    def score(self, left, right):
        total = torch.zeros(len(left))
        for embedder in self.embedders:
            total += (embedder.encode(left) * embedder.encode(right)).sum(-1)
        return total / len(self.embedders)


if __name__ == "__main__":
    torch.manual_seed(0)
    scorer = PairScorer(["base", "mini"], ["cuda:0", "cuda:1"])
    queries = ["how to bake bread", "train to munich", "fix a flat tyre"]
    answers = ["bread recipe", "railway timetable", "bicycle repair"]
    print(scorer.score(queries, answers))
