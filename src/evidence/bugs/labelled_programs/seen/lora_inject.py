# cause: adapter-weights-on-other-device|module-left-on-other-device
# guilty: self.A.t() (self.A)
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: int = 8):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) * 0.02)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r

    def forward(self, x):
        low = x @ self.A.t()
        return self.base(x) + self.scaling * (low @ self.B.t())


def inject(model: nn.Module, names=("q", "v")):
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(parent, name, LoRALinear(child))
    return [p for p in model.parameters() if p.requires_grad]


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        a = F.scaled_dot_product_attention(self.q(x)[:, None], self.k(x)[:, None], self.v(x)[:, None])
        return self.o(a[:, 0])


class Tagger(nn.Module):
    def __init__(self, vocab=40, d=16, tags=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Attention(d) for _ in range(2))
        self.cls = nn.Linear(d, tags)

    def forward(self, ids):
        h = self.emb(ids)
        for layer in self.layers:
            h = h + layer(h)
        return self.cls(h)


def finetune(model, device, steps=3):
    for p in model.parameters():
        p.requires_grad_(False)
    trainable = inject(model)
    opt = torch.optim.AdamW(trainable, lr=1e-3)
    for i in range(steps):
        ids = torch.randint(0, 40, (2, 7), device=device)
        tags = (ids % 5).to(device)
        loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch.device("cuda:1")
    pretrained = Tagger().to(dev)
    finetune(pretrained, dev)
