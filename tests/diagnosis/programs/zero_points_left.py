# cause: quantized-state-on-other-device
import torch


def pack(w, groups=4):
    w = w.view(w.size(0), groups, -1)
    low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    scale = (high - low).clamp(min=1e-6) / 15
    codes = ((w - low) / scale).round().to(torch.uint8)
    return {"codes": codes, "scale": scale, "zero": low}


def unpack(packed):
    zero = packed["zero"]
    return (packed["codes"].float() * packed["scale"] + zero).flatten(1)


def send(packed, device):
    return {k: (v.to(device) if k in ("codes", "scale") else v) for k, v in packed.items()}


device = torch.device("cuda:1")
layers = [send(pack(torch.randn(8, 8)), device) for _ in range(2)]
x = torch.randn(3, 8, device=device)
for layer in layers:
    x = x @ unpack(layer).t()
print(x.norm())
