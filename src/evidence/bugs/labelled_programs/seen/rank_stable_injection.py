# cause: adapter-weights-on-other-device
# guilty: self.lora_a (self.lora_a, self.lora_b)
# line: 36
# repair: in LoRALinear.__init__ create lora_a and lora_b on base.weight.device (inject passes no device) OR in inject: device=module.weight.device in place of next(model.parameters()).device
"""Rank-stabilised LoRA injected into a decoder whose blocks sit on two GPUs."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LoRAConfig:
    r: int = 4
    alpha: float = 8.0
    targets: tuple = ("q", "v")
    rank_stable: bool = True

    @property
    def scaling(self):
        return self.alpha / (math.sqrt(self.r) if self.rank_stable else self.r)


class LoRALinear(nn.Module):
    def __init__(self, base, config, device):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scaling = config.scaling
        self.lora_a = nn.Parameter(torch.empty(config.r, base.in_features, device=device))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, config.r, device=device))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x):
        delta = F.linear(F.linear(x, self.lora_a), self.lora_b)
        return self.base(x) + self.scaling * delta


def inject(model, config):
    model.requires_grad_(False)
    device = next(model.parameters()).device
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, nn.Linear) and name in config.targets:
                setattr(parent, name, LoRALinear(module, config, device))
    return model


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class Decoder(nn.Module):
    def __init__(self, vocab=80, dim=32, depth=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = [cards[i * len(cards) // depth] for i in range(depth)]
        self.tok = nn.Embedding(vocab, dim).to(cards[0])
        self.blocks = nn.ModuleList(Attention(dim, 4).to(c) for c in self.cards)
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, ids):
        x = self.tok(ids.to(self.tok.weight.device))
        for block, card in zip(self.blocks, self.cards):
            x = x.to(card)
            x = x + block(x)
        return self.head(x)


class Finetuner:
    def __init__(self, model, lr=1e-2):
        self.model = model
        self.opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)

    def step(self, ids):
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    tuner = Finetuner(inject(Decoder(), LoRAConfig()))
    for _ in range(3):
        print(tuner.step(torch.randint(0, 80, (4, 12))))
