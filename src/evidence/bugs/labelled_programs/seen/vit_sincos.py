# cause: tensor-created-on-wrong-device
# guilty: self.pos
import torch
from torch import nn


def sincos_2d(dim, side):
    ys, xs = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    omega = 1.0 / 10000 ** (torch.arange(dim // 4) / (dim / 4))
    parts = []
    for grid in (ys, xs):
        a = grid.flatten()[:, None] * omega[None]
        parts += [a.sin(), a.cos()]
    return torch.cat(parts, dim=1)[None]


class ViT(nn.Module):
    def __init__(self, image=32, patch=8, dim=32, classes=7):
        super().__init__()
        self.patchify = nn.Conv2d(3, dim, patch, patch)
        self.pos = sincos_2d(dim, image // patch)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        tokens = self.patchify(img).flatten(2).transpose(1, 2)
        tokens = tokens + self.pos
        return self.head(self.encoder(tokens).mean(1))


def train_one(model, images, labels, lr=1e-3):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    crit = nn.CrossEntropyLoss(label_smoothing=0.1)
    for im, lb in zip(images.split(4), labels.split(4)):
        opt.zero_grad()
        crit(model(im), lb).backward()
        opt.step()


if __name__ == "__main__":
    device = torch.device("cuda:0")
    torch.manual_seed(0)
    model = ViT().to(device)
    images = torch.rand(8, 3, 32, 32, device=device)
    labels = torch.randint(0, 7, (8,), device=device)
    train_one(model, images, labels)
