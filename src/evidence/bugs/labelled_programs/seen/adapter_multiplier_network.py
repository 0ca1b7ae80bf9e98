# cause: adapter-weights-on-other-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: scale (self.network.multiplier, network.multiplier, multiplier)
# line: 52
# repair: in AdapterLinear.forward use scale = self.network.multiplier.to(x.device) OR in AdapterNetwork.set_multiplier keep one tensor per device and let each adapter read the one of its own weights
"""Adapter training for a transformer denoiser that is spread over two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class SplitDenoiser(nn.Module):
    def __init__(self, dim=32, depth=4, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.devices = [torch.device(d) for d in devices]
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        per = depth // len(self.devices)
        for i, block in enumerate(self.blocks):
            block.to(self.devices[i // per])
        self.out = nn.Linear(dim, dim).to(self.devices[0])

    def forward(self, x):
        for block in self.blocks:
            x = block(x.to(block.norm.weight.device))
        return self.out(x.to(self.devices[0]))


class AdapterLinear(nn.Module):
    def __init__(self, base, rank, network):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.down.to(base.weight.device)
        self.up.to(base.weight.device)
        self.__dict__["network"] = network

    def forward(self, x):
        scale = self.network.multiplier.view(-1, 1, 1)
        delta = self.up(self.down(x))
        return self.base(x) + delta * scale


class AdapterNetwork:
    def __init__(self, model, rank=4, targets=("fc1", "fc2")):
        self.model = model
        self.device = next(model.parameters()).device
        self.multiplier = torch.ones(1, device=self.device)
        self.layers = []
        for block in model.blocks:
            for name in targets:
                layer = AdapterLinear(getattr(block, name), rank, self)
                setattr(block, name, layer)
                self.layers.append(layer)

    def set_multiplier(self, values):
        self.multiplier = torch.tensor(values, dtype=torch.float32, device=self.device)

    def trainable(self):
        return [p for layer in self.layers for p in (*layer.down.parameters(), *layer.up.parameters())]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = SplitDenoiser()
    model.requires_grad_(False)
    network = AdapterNetwork(model)
    optimizer = torch.optim.AdamW(network.trainable(), lr=1e-3)
    for step in range(3):
        latents = torch.randn(4, 16, 32, device="cuda:0")
        network.set_multiplier([1.0, 1.0, 0.5, 0.5])
        loss = F.mse_loss(model(latents), torch.zeros_like(latents))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
