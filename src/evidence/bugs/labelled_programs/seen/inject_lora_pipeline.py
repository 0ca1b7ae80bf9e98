# cause: adapter-weights-on-other-device
# guilty: self.lora_A (self.lora_B or self.lora_A.t())
"""给已经切分到两张卡上的模型手写 LoRA，并只训练 LoRA 参数。"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base, r, alpha, device):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features, device=device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r, device=device))
        self.scaling = alpha / r
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        delta = x @ self.lora_A.t() @ self.lora_B.t()
        return self.base(x) + delta * self.scaling


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class StagedModel(nn.Module):
    def __init__(self, vocab=100, dim=32, layers=4, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(FeedForward(dim) for _ in range(layers))
        self.out = nn.Linear(dim, classes)
        self.stage_of = None

    def split(self, devices):
        n = len(self.layers)
        self.stage_of = [devices[i * len(devices) // n] for i in range(n)]
        self.embed.to(devices[0])
        for layer, device in zip(self.layers, self.stage_of):
            layer.to(device)
        self.out.to(devices[-1])
        return self

    def forward(self, ids):
        x = self.embed(ids).mean(1)
        for layer, device in zip(self.layers, self.stage_of):
            x = layer(x.to(device))
        return self.out(x)


def inject_lora(model, targets=("fc1", "fc2"), r=4, alpha=8):
    model.requires_grad_(False)
    device = next(model.parameters()).device
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name in targets:
                setattr(module, name, LoRALinear(child, r, alpha, device))
                count += 1
    print(f"injected {count} LoRA layers")
    return [p for p in model.parameters() if p.requires_grad]


def main():
    devices = ["cuda:0", "cuda:1"]
    model = StagedModel().split(devices)
    trainable = inject_lora(model)
    optimizer = torch.optim.AdamW(trainable, lr=1e-3)
    for step in range(3):
        ids = torch.randint(0, 100, (8, 12), device=devices[0])
        target = torch.randint(0, 5, (8,), device=devices[-1])
        loss = F.cross_entropy(model(ids), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
