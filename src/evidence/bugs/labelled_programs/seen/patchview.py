# cause: tensor-created-on-wrong-device
# guilty: self.pos (pos)
import torch
import torch.nn as nn


class PatchEncoder(nn.Module):
    def __init__(self, size=16, patch=4, dim=32, classes=5):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)
        count = (size // patch) ** 2
        self.pos = torch.randn(1, count + 1, dim) * 0.02
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        tok = self.proj(img).flatten(2).transpose(1, 2)
        tok = torch.cat([self.cls.expand(len(tok), -1, -1), tok], 1)
        tok = tok + self.pos
        return self.head(self.body(tok)[:, 0])


def main():
    torch.manual_seed(0)
    net = PatchEncoder().to("cuda:0")
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(3):
        img = torch.randn(4, 3, 16, 16, device="cuda:0")
        lab = torch.randint(0, 5, (4,), device="cuda:0")
        loss = nn.functional.cross_entropy(net(img), lab)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 3))


if __name__ == "__main__":
    main()
