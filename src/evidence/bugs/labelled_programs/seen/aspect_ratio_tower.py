# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices
# guilty: shapes (shape_ids, batch["shape_ids"], extra["shape_ids"])
# line: 48
# repair: in TiledTower.forward move the shape ids like the tiles, shapes = shapes.to(self.patch.weight.device), OR move every vision input of the batch to the tower's card in VisionChat.picture_features
"""Chat about tall and wide pictures: cut into tiles, the tower is told the shape of the grid by an id."""
import torch
import torch.nn as nn

SHAPES = [(1, 1), (1, 2), (2, 1), (2, 2)]


class Processor:
    """Pictures and text in, one dictionary of tensors out."""

    def __init__(self, tile=16, picture_token=2):
        self.tile, self.picture_token = tile, picture_token

    def cut(self, picture):
        height, width = picture.shape[1] // self.tile, picture.shape[2] // self.tile
        tiles = picture.unfold(1, self.tile, self.tile).unfold(2, self.tile, self.tile)
        tiles = tiles.permute(1, 2, 0, 3, 4).reshape(height * width, 3, self.tile, self.tile)
        full = torch.zeros(4, 3, self.tile, self.tile)
        full[: len(tiles)] = tiles
        return full, SHAPES.index((height, width)) + 1, len(tiles)

    def __call__(self, pictures, texts):
        cut = [self.cut(p) for p in pictures]
        rows = [[1] + [self.picture_token] * 4 + [3 + ord(c) % 90 for c in t] for t in texts]
        width = max(map(len, rows))
        return {"ids": torch.tensor([r + [0] * (width - len(r)) for r in rows]),
                "tiles": torch.stack([c[0] for c in cut]),
                "shape_ids": torch.tensor([c[1] for c in cut]),
                "tile_mask": torch.tensor([[i < c[2] for i in range(4)] for c in cut])}


class TiledTower(nn.Module):
    def __init__(self, dim=32, tile=16):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, tile, tile)
        self.shape_embed = nn.Embedding(len(SHAPES) + 1, 4 * dim)
        self.gate = nn.Parameter(torch.zeros(1))
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True)

    def forward(self, tiles, shapes, mask):
        tiles = tiles.to(self.patch.weight.device, self.patch.weight.dtype)
        b, n = tiles.shape[:2]
        x = self.patch(tiles.flatten(0, 1)).flatten(1).view(b, n, -1)
        grid = self.shape_embed(shapes).view(b, n, -1)
        x = x + torch.tanh(self.gate) * grid
        return self.layer(x) * mask[..., None].to(x.device)


class VisionChat(nn.Module):
    def __init__(self, text_card, vision_card, vocab=100, dim=32):
        super().__init__()
        self.tower = TiledTower(dim).to(vision_card)
        self.bridge = nn.Linear(dim, dim).to(vision_card)
        self.embed = nn.Embedding(vocab, dim).to(text_card)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True) for _ in range(2))
        self.layers.to(text_card)
        self.head = nn.Linear(dim, vocab).to(text_card)

    @property
    def device(self):
        return self.embed.weight.device

    def picture_features(self, tiles, shape_ids, tile_mask):
        return self.bridge(self.tower(tiles, shape_ids, tile_mask)).to(self.device)

    def forward(self, ids, tiles=None, **extra):
        x = self.embed(ids)
        if tiles is not None:
            features = self.picture_features(tiles, **extra)
            spots = (ids == 2).unsqueeze(-1).expand_as(x)
            x = x.masked_scatter(spots, features)
        causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=self.device)
        for layer in self.layers:
            x = layer(x, src_mask=causal, is_causal=True)
        return self.head(x)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    processor, model = Processor(), VisionChat("cuda:0", "cuda:1").eval()
    pictures = [torch.rand(3, 16, 32), torch.rand(3, 32, 16), torch.rand(3, 32, 32)]
    texts = ["what is on the left?", "how tall", "count the birds"]
    for start in range(0, len(pictures), 2):
        batch = processor(pictures[start:start + 2], texts[start:start + 2])
        batch = {k: v.to(model.device) for k, v in batch.items()}
        print(model(**batch)[:, -1].argmax(-1).tolist())


if __name__ == "__main__":
    main()
