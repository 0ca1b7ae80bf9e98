# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: overlap (total)
# line: 53
# repair: in orthogonal_penalty add on one card, total = total + overlap.to(device) with the device of the loss passed in OR return the parts and move each before the sum
"""LoRA tuning of a model over two cards, with a penalty that keeps the A rows orthogonal."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Regressor(nn.Module):
    def __init__(self, features=16, dim=32, depth=4):
        super().__init__()
        self.inlet = nn.Linear(features, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.outlet = nn.Linear(dim, 1)

    def spread(self, first, second):
        self.inlet.to(first)
        half = len(self.layers) // 2
        for i, layer in enumerate(self.layers):
            layer.to(first if i < half else second)
        self.outlet.to(second)
        return self

    def forward(self, x):
        x = self.inlet(x)
        for layer in self.layers:
            x = layer(x.to(layer.norm.weight.device))
        return self.outlet(x)[:, 0]


def orthogonal_penalty(model, adapter="default"):
    total = 0.0
    for name, weight in model.named_parameters():
        if f"lora_A.{adapter}" not in name:
            continue
        gram = weight @ weight.T
        eye = torch.eye(len(gram), device=weight.device)
        overlap = (gram * (1 - eye)).square().sum()
        total = total + overlap
    return total


def adapt(base, rank=4):
    config = LoraConfig(r=rank, lora_alpha=8, target_modules=["up", "down"], lora_dropout=0.0)
    return get_peft_model(base, config)


def main():
    torch.manual_seed(0)
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    model = adapt(Regressor().spread(first, second))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=5e-3)
    for step in range(4):
        x = torch.randn(16, 16)
        y = x[:, :4].sum(1)
        loss = F.mse_loss(model(x.to(first)), y.to(second))
        loss = loss + 0.1 * orthogonal_penalty(model).to(second)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
