# cause: embedding-streams-on-different-devices
# guilty: img
# text tower on card 0, image tower on card 1, fusion by a small transformer on card 0
import torch
from torch import nn

TEXT, IMAGE = torch.device("cuda:0"), torch.device("cuda:1")


class TextTower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(100, d)
        self.pos = nn.Parameter(torch.zeros(1, 16, d))

    def forward(self, ids):
        return self.emb(ids) + self.pos[:, : ids.size(1)]


class ImageTower(nn.Module):
    def __init__(self, d, patch=4):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, stride=patch)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        return self.norm(self.patch(x).flatten(2).transpose(1, 2))


class VQA(nn.Module):
    def __init__(self, d=16, answers=6):
        super().__init__()
        self.text = TextTower(d).to(TEXT)
        self.image = ImageTower(d).to(IMAGE)
        self.types = nn.Parameter(torch.randn(2, d, device=TEXT) * 0.02)
        self.fusion = nn.ModuleList(nn.Linear(d, d) for _ in range(2)).to(TEXT)
        self.answer = nn.Linear(d, answers).to(TEXT)

    def forward(self, ids, pixels):
        txt = self.text(ids.to(TEXT))
        img = self.image(pixels.to(IMAGE))
        tokens = torch.cat([txt, img], dim=1)
        kind = torch.cat([torch.zeros(txt.size(1)), torch.ones(img.size(1))]).long().to(TEXT)
        h = tokens + self.types[kind]
        for layer in self.fusion:
            att = torch.softmax(h @ h.transpose(1, 2) / h.size(-1) ** 0.5, -1)
            h = h + torch.relu(layer(att @ h))
        return self.answer(h.mean(1))


def main():
    torch.manual_seed(0)
    model = VQA()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(2):
        ids, px = torch.randint(0, 100, (3, 7)), torch.rand(3, 3, 16, 16)
        ans = torch.randint(0, 6, (3,)).to(TEXT)
        loss = nn.functional.cross_entropy(model(ids, px), ans)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
