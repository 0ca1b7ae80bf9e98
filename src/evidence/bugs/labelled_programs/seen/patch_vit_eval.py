# cause: tensor-created-on-wrong-device
# guilty: ids
import torch
from torch import nn


class TinyViT(nn.Module):
    def __init__(self, side=32, patch=8, dim=96, classes=10):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)
        self.n = (side // patch) ** 2
        self.pos = nn.Embedding(self.n + 1, dim)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 128, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.fc = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.proj(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        ids = torch.arange(self.n + 1)
        x = x + self.pos(ids)
        return self.fc(self.enc(x)[:, 0])


def main():
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    model = TinyViT().to(dev)
    images = torch.randn(64, 3, 32, 32)
    labels = torch.randint(0, 10, (64,))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=16)
    model.train()
    hits = 0
    with torch.no_grad():
        for img, lab in loader:
            img, lab = img.to(dev), lab.to(dev)
            hits += (model(img).argmax(1) == lab).sum().item()
    print(f"top1 {hits / len(labels):.3f}")


if __name__ == "__main__":
    main()
