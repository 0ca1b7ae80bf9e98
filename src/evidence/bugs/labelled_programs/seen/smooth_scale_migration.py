# cause: quantized-state-on-other-device|tensor-created-on-wrong-device
# guilty: act (act.pow(alpha))
# line: 58
# repair: in migrate() move the collected range to its layer: act = act.to(linear.weight.device).clamp(min=1e-4) OR in RangeRecorder keep the range on the activation's device (no .cpu())
"""Move activation outliers into the weights before int8 rounding; model over two cards."""
import torch
from torch import nn
from accelerate import dispatch_model


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.lin = nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.lin(self.norm(x)).relu()


class Encoder(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = block(h)
        return h.mean(1)


class RangeRecorder:
    def __init__(self, model):
        self.ranges, self.handles = {}, []
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                self.handles.append(module.register_forward_pre_hook(self.hook(name)))

    def hook(self, name):
        def record(module, args):
            top = args[0].detach().abs().flatten(0, -2).amax(0).float().cpu()
            old = self.ranges.get(name)
            self.ranges[name] = top if old is None else torch.maximum(old, top)
        return record

    def close(self):
        for handle in self.handles:
            handle.remove()
        return self.ranges


@torch.no_grad()
def migrate(norm, linear, act, alpha=0.5):
    act = act.clamp(min=1e-4)
    peak = linear.weight.abs().amax(0).clamp(min=1e-4)
    scale = act.pow(alpha) / peak.pow(1 - alpha)
    norm.weight.div_(scale)
    norm.bias.div_(scale)
    linear.weight.mul_(scale)


@torch.no_grad()
def round_int8(linear):
    step = linear.weight.abs().amax(1, keepdim=True) / 127
    linear.weight.copy_((linear.weight / step).round() * step)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Encoder().eval()
    plan = {"embed": "cuda:0", "blocks.0": "cuda:0", "blocks.1": "cuda:0", "blocks.2": "cuda:1", "blocks.3": "cuda:1"}
    model = dispatch_model(model, device_map=plan)
    recorder = RangeRecorder(model)
    ids = torch.randint(0, 64, (8, 12), device="cuda:0")
    with torch.no_grad():
        before = model(ids)
    ranges = recorder.close()
    for i, block in enumerate(model.blocks):
        migrate(block.norm, block.lin, ranges[f"blocks.{i}.lin"])
        round_int8(block.lin)
    with torch.no_grad():
        print("error", (model(ids) - before).abs().max().item())
