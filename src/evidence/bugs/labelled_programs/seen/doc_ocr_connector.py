# cause: embedding-streams-on-different-devices
# guilty: features (image_features, source)
# line: 69
# repair: in DocumentReader.merge move the features to the text embeddings: features = features.to(embeds.device, embeds.dtype) before masked_scatter OR place the connector (and its output) on the card of the word embedding in build_reader
"""Document reader: a patch encoder on one card feeds a language model on the other."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ReaderConfig:
    vocab: int = 110
    dim: int = 32
    vision_dim: int = 24
    patch: int = 8
    image_token: int = 109
    placement: dict = field(default_factory=lambda: {
        "vision": "cuda:1", "connector": "cuda:1", "text": "cuda:0"})


class PatchEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.patch = nn.Conv2d(1, cfg.vision_dim, cfg.patch, cfg.patch)
        self.block = nn.TransformerEncoderLayer(cfg.vision_dim, 4, 48, batch_first=True)

    def forward(self, pixels):
        return self.block(self.patch(pixels).flatten(2).transpose(1, 2))


class Connector(nn.Module):
    """Joins neighbouring patches and maps them to the width of the text model."""

    def __init__(self, cfg, merge=2):
        super().__init__()
        self.merge = merge
        self.proj = nn.Sequential(nn.Linear(cfg.vision_dim * merge, cfg.dim), nn.GELU(),
                                  nn.Linear(cfg.dim, cfg.dim))

    def forward(self, x):
        b, n, d = x.shape
        return self.proj(x.reshape(b, n // self.merge, d * self.merge))


class TextModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.block = nn.TransformerEncoderLayer(cfg.dim, 4, 64, batch_first=True)
        self.head = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, embeds):
        mask = nn.Transformer.generate_square_subsequent_mask(embeds.shape[1], device=embeds.device)
        return self.head(self.block(embeds, src_mask=mask))


class DocumentReader(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.vision, self.connector, self.text = PatchEncoder(cfg), Connector(cfg), TextModel(cfg)

    def merge(self, ids, features):
        embeds = self.text.embed(ids)
        where = (ids == self.cfg.image_token).unsqueeze(-1).expand_as(embeds)
        return embeds.masked_scatter(where, features)

    def forward(self, ids, pixels):
        pixels = pixels.to(self.vision.patch.weight.device)
        features = self.connector(self.vision(pixels))
        return self.text(self.merge(ids, features))


def build_reader(cfg):
    model = DocumentReader(cfg)
    for name, device in cfg.placement.items():
        getattr(model, name).to(device)
    return model


def make_batch(cfg, size=2, patches=8, words=10):
    image = torch.full((size, patches), cfg.image_token)
    text = torch.randint(0, cfg.image_token, (size, words))
    return torch.cat([image, text], 1), torch.randn(size, 1, 32, 32)


if __name__ == "__main__":
    cfg = ReaderConfig()
    reader = build_reader(cfg)
    opt = torch.optim.AdamW(reader.parameters(), lr=1e-3)
    for _ in range(2):
        ids, pixels = make_batch(cfg)
        ids = ids.to(cfg.placement["text"])
        logits = reader(ids, pixels)
        loss = F.cross_entropy(logits[:, 8:-1].flatten(0, 1), ids[:, 9:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())
