# cause: unmaterialized-weights|meta-tensor-not-materialized
# guilty: self.grid
import pathlib
import tempfile
import torch
import torch.nn as nn


class ViT(nn.Module):
    def __init__(self, d=32, patch=8, size=32, depth=2, classes=5):
        super().__init__()
        n = size // patch
        self.proj = nn.Conv2d(3, d, patch, stride=patch)
        y, x = torch.meshgrid(torch.linspace(-1, 1, n), torch.linspace(-1, 1, n), indexing="ij")
        freq = torch.arange(1, d // 4 + 1) * 1.5
        ang = torch.cat([y.reshape(-1, 1) * freq, x.reshape(-1, 1) * freq], dim=1)
        self.register_buffer("grid", torch.cat([ang.sin(), ang.cos()], dim=1), persistent=False)
        self.register_buffer("mean", torch.zeros(1, 3, 1, 1))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True) for _ in range(depth))
        self.head = nn.Linear(d, classes)

    def forward(self, img):
        x = self.proj(img - self.mean).flatten(2).transpose(1, 2)
        x = x + self.grid
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def save_sharded(model, folder, shards=2):
    items = list(model.state_dict().items())
    size = -(-len(items) // shards)
    for i in range(shards):
        torch.save(dict(items[i * size:(i + 1) * size]), folder / f"shard-{i}.pt")


def load_sharded(folder, device):
    with torch.device("meta"):
        model = ViT()
    for file in sorted(folder.glob("shard-*.pt")):
        part = torch.load(file, map_location=device)
        model.load_state_dict(part, strict=False, assign=True)
    return model.eval().requires_grad_(False)


def main():
    torch.manual_seed(0)
    source = ViT().to("cuda:1").eval()
    img = torch.rand(4, 3, 32, 32)
    with torch.no_grad():
        expected = source(img.to("cuda:1")).cpu()
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        save_sharded(source, folder)
        model = load_sharded(folder, "cuda:0")
    got = model(img.to("cuda:0")).cpu()
    print("same:", torch.allclose(got, expected, atol=1e-4))


if __name__ == "__main__":
    main()
