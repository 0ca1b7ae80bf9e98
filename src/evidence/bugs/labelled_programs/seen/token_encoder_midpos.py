# cause: tensor-created-on-wrong-device|block-split-across-devices|device-map-incomplete-or-wrong
# guilty: self.mid_positions[i] (self.mid_positions, mid_positions)
"""A detector with position embeddings between its layers, spread over two cards."""
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class DetectorEncoder(nn.Module):
    def __init__(self, dim=32, depth=4, patches=16, queries=4, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, kernel_size=8, stride=8)
        self.queries = nn.Parameter(torch.zeros(1, queries, dim))
        self.positions = nn.Parameter(torch.randn(1, patches + queries, dim) * 0.02)
        self.mid_positions = nn.Parameter(torch.randn(depth - 1, 1, patches + queries, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim, 4) for _ in range(depth))
        self.classify = nn.Linear(dim, classes + 1)
        self.boxes = nn.Linear(dim, 4)
        self.num_queries = queries

    def forward(self, pixels):
        tokens = self.patch(pixels).flatten(2).transpose(1, 2)
        queries = self.queries.expand(tokens.shape[0], -1, -1)
        tokens = torch.cat([tokens, queries], dim=1) + self.positions
        for i, layer in enumerate(self.layers):
            tokens = layer(tokens)
            if i < len(self.layers) - 1:
                tokens = tokens + self.mid_positions[i]
        picked = tokens[:, -self.num_queries:]
        return self.classify(picked), self.boxes(picked).sigmoid()


def layer_map(depth):
    device_map = {"patch": 0, "queries": 0, "positions": 0, "mid_positions": 0}
    for i in range(depth):
        device_map[f"layers.{i}"] = 0 if i < depth // 2 else 1
    device_map["classify"] = 1
    device_map["boxes"] = 1
    return device_map


def main():
    torch.manual_seed(0)
    model = DetectorEncoder().eval()
    model = dispatch_model(model, device_map=layer_map(4))
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        logits, boxes = model(images)
    scores = logits.softmax(-1)[..., :-1].max(-1).values
    print("best score", scores.max().item(), "boxes", boxes.shape)


if __name__ == "__main__":
    main()
