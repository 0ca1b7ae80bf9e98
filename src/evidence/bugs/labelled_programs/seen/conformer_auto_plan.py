# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: x (residual, self.ff2(self.act(self.ff1(self.norm2(x)))))
# line: 25
# repair: name the block in the plan: infer_auto_device_map(model, max_memory=budget, no_split_module_classes=["ConvBlock"]) OR in ConvBlock.forward move the branch: x + branch.to(x.device)
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model, infer_auto_device_map


class ConvBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.depthwise = nn.Conv1d(dim, dim, 7, padding=3, groups=dim)
        self.pointwise = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff1 = nn.Linear(dim, dim * 4)
        self.act = nn.SiLU()
        self.ff2 = nn.Linear(dim * 4, dim)

    def forward(self, x):
        y = self.depthwise(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.pointwise(y)
        x = x + self.ff2(self.act(self.ff1(self.norm2(x))))
        return x


class SpeechTagger(nn.Module):
    def __init__(self, mels=40, dim=64, depth=4, tags=12):
        super().__init__()
        self.inp = nn.Linear(mels, dim)
        self.blocks = nn.ModuleList(ConvBlock(dim) for _ in range(depth))
        self.out = nn.Linear(dim, tags)

    def forward(self, mels):
        x = self.inp(mels)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def plan(model, share=0.55):
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    budget = {0: int(size * share), 1: size}
    return infer_auto_device_map(model, max_memory=budget)


def main():
    torch.manual_seed(0)
    model = SpeechTagger()
    device_map = plan(model)
    for name, device in device_map.items():
        print(f"{name:24s} {device}")
    model = dispatch_model(model, device_map=device_map)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(2):
        mels = torch.randn(2, 50, 40)
        tags = torch.randint(0, 12, (2, 50))
        logits = model(mels)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
