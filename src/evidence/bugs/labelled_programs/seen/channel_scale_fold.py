# cause: quantized-state-on-other-device
# guilty: ceiling (self.ceiling[name], act_max, observer.ceiling)
# line: 63
# repair: in fold_scales move the statistics, ceiling = observer.ceiling[name].to(fc.weight.device) OR in RangeObserver keep the maximum on the layer's device instead of .cpu()
"""Moves the outliers of activations into the weights before quantisation, layer by layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Unit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + F.gelu(self.fc(self.norm(x)))


class TwoCardTower(nn.Module):
    def __init__(self, dim=32, depth=4):
        super().__init__()
        self.units = nn.ModuleList(Unit(dim) for _ in range(depth))
        for i, unit in enumerate(self.units):
            unit.to("cuda:0" if i < depth // 2 else "cuda:1")

    def forward(self, x):
        for unit in self.units:
            x = unit(x.to(unit.fc.weight.device))
        return x


class RangeObserver:
    """Largest magnitude per channel that ever went into a linear layer."""

    def __init__(self, model):
        self.ceiling = {}
        self.handles = []
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                self.handles.append(module.register_forward_hook(self._hook(name)))

    def _hook(self, name):
        def hook(module, args, output):
            peak = args[0].detach().abs().flatten(0, -2).amax(0).cpu()
            known = self.ceiling.get(name)
            self.ceiling[name] = peak if known is None else torch.maximum(known, peak)

        return hook

    def close(self):
        for handle in self.handles:
            handle.remove()


@torch.no_grad()
def fold_scales(model, observer, alpha=0.5):
    for index, unit in enumerate(model.units):
        norm, fc = unit.norm, unit.fc
        ceiling = observer.ceiling[f"units.{index}.fc"]
        weight = fc.weight.abs().amax(0).clamp(min=1e-5)
        scale = ceiling.clamp(min=1e-5).pow(alpha) / weight.pow(1 - alpha)
        norm.weight.div_(scale)
        norm.bias.div_(scale)
        fc.weight.mul_(scale)


@torch.no_grad()
def round_weights(model, bits=8):
    top = 2 ** (bits - 1) - 1
    for unit in model.units:
        step = unit.fc.weight.abs().amax(1, keepdim=True) / top
        unit.fc.weight.copy_((unit.fc.weight / step).round().clamp(-top, top) * step)


def main():
    torch.manual_seed(0)
    model = TwoCardTower().eval()
    calibration = [torch.randn(4, 10, 32) * torch.linspace(0.1, 5, 32) for _ in range(3)]
    observer = RangeObserver(model)
    with torch.no_grad():
        before = [model(x).cpu() for x in calibration]
    observer.close()
    fold_scales(model, observer)
    round_weights(model)
    with torch.no_grad():
        for x, y in zip(calibration, before):
            print(F.mse_loss(model(x).cpu(), y).item())


if __name__ == "__main__":
    main()
