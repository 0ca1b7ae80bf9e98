# cause: adapter-weights-on-other-device
# guilty: self.down (self.down.weight, lora weights)
# line: 24
# repair: in inject create each LowRank on the device of the layer it wraps (device=module.weight.device) instead of the one device found by model_device(model) OR at the end of inject call wrapped.down.to(module.weight.device); wrapped.up.to(...)
"""LoRA by hand on a model that was spread over two cards before."""
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn


class LowRank(nn.Module):
    def __init__(self, base, rank, alpha, device):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.down = nn.Linear(base.in_features, rank, bias=False, device=device)
        self.up = nn.Linear(rank, base.out_features, bias=False, device=device)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        y = self.base(x)
        x = x.to(y.device)
        return y + self.scale * self.up(self.down(x))


class Mixer(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.time = nn.Linear(length, length)
        self.value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.norm(x)
        h = self.time(h.transpose(1, 2)).transpose(1, 2)
        return x + self.out(F.gelu(self.value(h)))


class MixerLM(nn.Module):
    def __init__(self, vocab=80, width=24, length=16, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList([Mixer(width, length) for _ in range(depth)])
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def model_device(model):
    return next(model.parameters()).device


def parent_of(model, name):
    path, _, leaf = name.rpartition(".")
    return model.get_submodule(path), leaf


def inject(model, targets, rank=4, alpha=8):
    device = model_device(model)
    chosen = [n for n, m in model.named_modules()
              if isinstance(m, nn.Linear) and n.split(".")[-1] in targets]
    for name in chosen:
        parent, leaf = parent_of(model, name)
        setattr(parent, leaf, LowRank(getattr(parent, leaf), rank, alpha, device))
    return chosen


def freeze_base(model):
    for name, p in model.named_parameters():
        p.requires_grad_(".down." in name or ".up." in name)


def main():
    torch.manual_seed(0)
    model = MixerLM()
    plan = {"embed": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "head": 1}
    model = dispatch_model(model, device_map=plan, main_device=0)
    names = inject(model, {"value", "out"})
    freeze_base(model)
    print(f"{len(names)} layers adapted")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for step in range(3):
        ids = torch.randint(0, 80, (4, 16), device="cuda:0")
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
