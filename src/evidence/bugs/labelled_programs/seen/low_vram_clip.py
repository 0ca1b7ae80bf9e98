# cause: offload-hook-bypassed
# guilty: self.text_proj.weight
"""Contrastive text/image model for small cards: weights visit the GPU only while in use."""
import torch
from torch import nn
import torch.nn.functional as F

GPU, HOST = torch.device("cuda:0"), torch.device("cpu")


class OnDemand:
    def __init__(self, module):
        self.module = module.to(HOST)
        module.register_forward_pre_hook(self.enter)
        module.register_forward_hook(self.leave)

    def enter(self, module, args):
        module.to(GPU, non_blocking=True)
        return tuple(a.to(GPU) if torch.is_tensor(a) else a for a in args)

    def leave(self, module, args, output):
        module.to(HOST)
        return output


class TextTower(nn.Module):
    def __init__(self, vocab=100, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.mix = nn.GRU(d, d, batch_first=True)

    def forward(self, ids):
        return self.mix(self.emb(ids))[0].mean(1)


class ImageTower(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(16 * 16, d))

    def forward(self, x):
        return self.net(x)


class Clip(nn.Module):
    def __init__(self, d=32, out=16):
        super().__init__()
        self.text, self.image = TextTower(d=d), ImageTower(d)
        self.image_proj = nn.Linear(d, out, bias=False)
        self.text_proj = nn.Linear(d, out, bias=False)
        self.temperature = nn.Parameter(torch.tensor(2.0))

    def encode_image(self, pixels):
        return F.normalize(self.image_proj(self.image(pixels)), dim=-1)

    def encode_text(self, ids):
        return F.normalize(self.text(ids) @ self.text_proj.weight.t(), dim=-1)

    def similarity(self, pixels, ids):
        return self.encode_image(pixels) @ self.encode_text(ids).t() * self.temperature.exp().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Clip().eval()
    managed = [OnDemand(m) for m in (model.text, model.image, model.image_proj, model.text_proj)]
    labels = torch.randint(0, 100, (5, 6), device=GPU)
    with torch.no_grad():
        for _ in range(2):
            pixels = torch.rand(3, 3, 16, 16)
            probs = model.similarity(pixels, labels).softmax(-1)
            print(probs.argmax(-1).tolist(), len(managed))
