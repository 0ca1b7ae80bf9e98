# cause: adapter-weights-on-other-device
# guilty: self.lora_A (self.lora_A.T)
# after: ViperEkura/AstrAI#19
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

@dataclass
class LoRAConfig:
    r: int = 4
    alpha: int = 8
    targets: tuple = ("q_proj", "v_proj")

class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, cfg: LoRAConfig):
        super().__init__()
        self.base = base
        self.scaling = cfg.alpha / cfg.r
        self.lora_A = nn.Parameter(torch.randn(cfg.r, base.in_features) / math.sqrt(cfg.r))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, cfg.r))
    def forward(self, x):
        out = self.base(x)
        down = x @ self.lora_A.T
        return out + down @ self.lora_B.T * self.scaling

class GQA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        o = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x)))
        return self.o_proj(o.transpose(1, 2).flatten(2))

class Model(nn.Module):
    def __init__(self, vocab=50, dim=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([GQA(dim, 4) for _ in range(layers)])
        self.head = nn.Linear(dim, vocab)
    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)

def inject_lora(model, cfg):
    for p in model.parameters():
        p.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in cfg.targets and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, cfg))
    return model

if __name__ == "__main__":
    model = Model().to("cuda")
    inject_lora(model, LoRAConfig())
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(3):
        ids = torch.randint(0, 50, (4, 12), device="cuda")
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(loss.item())
