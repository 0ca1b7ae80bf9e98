# cause: adapter-weights-on-other-device
# guilty: self.down.weight (self.up.weight, self.down)
"""Low-rank adapters that hang on forward hooks, several tasks on one frozen base."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LowRank(nn.Module):
    def __init__(self, d_in, d_out, rank=4, alpha=8.0):
        super().__init__()
        self.down = nn.Linear(d_in, rank, bias=False)
        self.up = nn.Linear(rank, d_out, bias=False)
        nn.init.normal_(self.down.weight, std=0.02)
        nn.init.zeros_(self.up.weight)
        self.scaling = alpha / rank

    def forward(self, x):
        z = F.linear(x, self.down.weight)
        return F.linear(z, self.up.weight) * self.scaling


class AdapterPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.tasks = nn.ModuleDict()
        self.active = None

    def attach(self, model, task, match):
        adapters = nn.ModuleDict()
        for name, layer in model.named_modules():
            if isinstance(layer, nn.Linear) and match in name:
                key = name.replace(".", "__")
                adapters[key] = LowRank(layer.in_features, layer.out_features)
                layer.register_forward_hook(self._hook(task, key))
        self.tasks[task] = adapters
        self.to(next(model.parameters()).device)
        self.active = task
        return list(adapters.parameters())

    def _hook(self, task, key):
        def run(module, args, output):
            if self.active != task:
                return output
            return output + self.tasks[task][key](args[0])
        return run


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.proj_in = nn.Linear(dim, dim * 2)
        self.proj_out = nn.Linear(dim * 2, dim)

    def forward(self, x):
        return x + self.proj_out(F.gelu(self.proj_in(self.norm(x))))


class FrozenBase(nn.Module):
    def __init__(self, dim, depth, classes, devices):
        super().__init__()
        self.blocks = nn.ModuleList()
        for i in range(depth):
            self.blocks.append(Residual(dim).to(devices[i * len(devices) // depth]))
        self.head = nn.Linear(dim, classes).to(devices[-1])
        self.requires_grad_(False)

    def forward(self, x):
        for block in self.blocks:
            x = block(x.to(block.norm.weight.device))
        return self.head(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    base = FrozenBase(24, 4, 3, ["cuda:0", "cuda:1"])
    pool = AdapterPool()
    params = pool.attach(base, "sentiment", match="proj_in")
    optimizer = torch.optim.AdamW(params, lr=1e-3)
    for step in range(4):
        x = torch.randn(16, 24)
        target = torch.randint(0, 3, (16,), device="cuda:1")
        loss = F.cross_entropy(base(x.to("cuda:0")), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
