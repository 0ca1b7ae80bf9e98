# cause: embedding-streams-on-different-devices
# guilty: patches
"""Prefix-captioning: image patches first, then the caption tokens."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT_GPU = torch.device("cuda:0")
VISION_GPU = torch.device("cuda:1")


class PatchStem(nn.Module):
    def __init__(self, d, patch=8):
        super().__init__()
        self.conv = nn.Conv2d(3, d, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, 16, d) * 0.02)
        self.norm = nn.LayerNorm(d)

    def forward(self, img):
        return self.norm(self.conv(img).flatten(2).transpose(1, 2) + self.pos)


class TokenStem(nn.Module):
    def __init__(self, vocab, d, ctx=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)

    def forward(self, ids):
        return self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))


class Captioner(nn.Module):
    def __init__(self, vocab=70, d=32):
        super().__init__()
        self.vision = PatchStem(d).to(VISION_GPU)
        self.text = TokenStem(vocab, d).to(TEXT_GPU)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.trunk = nn.TransformerEncoder(layer, 2).to(TEXT_GPU)
        self.head = nn.Linear(d, vocab).to(TEXT_GPU)

    def forward(self, img, ids):
        patches = self.vision(img.to(VISION_GPU))
        words = self.text(ids.to(TEXT_GPU))
        x = torch.cat([patches, words], dim=1)
        n, p = x.size(1), patches.size(1)
        mask = torch.full((n, n), float("-inf"), device=x.device).triu(1)
        mask[:, :p] = 0.0
        return self.head(self.trunk(x, mask=mask)[:, p:])


def main():
    torch.manual_seed(0)
    model = Captioner()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        img = torch.randn(4, 3, 32, 32)
        ids = torch.randint(0, 70, (4, 9))
        logits = model(img, ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
