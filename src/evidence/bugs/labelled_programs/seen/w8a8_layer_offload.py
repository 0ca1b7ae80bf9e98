# cause: quantized-state-on-other-device|weights-moved-away-by-manager
# guilty: self.scale (self.weight)
# after: Nerogar/OneTrainer#1673
import torch
import torch.nn as nn
import torch.nn.functional as F

class LinearW8A8(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) * 0.05, requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(out_features), requires_grad=False)
        self.register_buffer("scale", torch.ones(1, 1))
    def quantize(self):
        w = self.weight.detach()
        self.scale = (w.abs().amax(dim=1, keepdim=True) / 127.0).clamp(min=1e-8)
        self.weight = nn.Parameter(torch.round(w / self.scale).to(torch.int8), requires_grad=False)
    def unquantized_weight(self, dtype):
        return self.weight.detach().to(dtype) * self.scale
    def forward(self, x):
        return F.linear(x, self.unquantized_weight(x.dtype), self.bias)
class LayerOffloadConductor:
    """Parks the layers beyond a fraction of the model on the temp device."""
    def __init__(self, layers, train_device, temp_device, fraction):
        self.layers = list(layers)
        self.train_device, self.temp_device = torch.device(train_device), torch.device(temp_device)
        self.keep = int(len(self.layers) * (1 - fraction))
    def _relocate(self, layer, device):
        for module in layer.modules():
            for name in ("weight", "bias"):
                p = getattr(module, name, None)
                if isinstance(p, nn.Parameter):
                    p.data = p.data.to(device)
    def park(self):
        for layer in self.layers[self.keep:]:
            self._relocate(layer, self.temp_device)
    def before_layer(self, index):
        self._relocate(self.layers[index], self.train_device)
class DoRAModule(nn.Module):
    def __init__(self, orig, rank=4):
        super().__init__()
        self.orig = [orig]
        out_features, in_features = orig.weight.shape
        self.down = nn.Parameter(torch.randn(rank, in_features) * 0.02)
        self.up = nn.Parameter(torch.zeros(out_features, rank))
        w = orig.unquantized_weight(torch.float32)
        self.dora_scale = nn.Parameter(torch.linalg.vector_norm(w, dim=1, keepdim=True))
class DiT(nn.Module):
    def __init__(self, dim=24, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList([LinearW8A8(dim, dim) for _ in range(depth)])
    def forward(self, x, conductor):
        for i, block in enumerate(self.blocks):
            conductor.before_layer(i)
            x = x + F.gelu(block(x))
        return x
class ModelSetup:
    def __init__(self, train_device="cuda", temp_device="cpu"):
        self.model = DiT()
        for block in self.model.blocks:
            block.quantize()
        self.model.to(train_device)
        self.conductor = LayerOffloadConductor(self.model.blocks, train_device, temp_device, fraction=0.5)
        self.conductor.park()
    def create_adapters(self):
        return nn.ModuleList([DoRAModule(b) for b in self.model.blocks])
if __name__ == "__main__":
    setup = ModelSetup()
    adapters = setup.create_adapters()
    print(sum(p.numel() for p in adapters.parameters()))
    print(setup.model(torch.randn(2, 24, device="cuda"), setup.conductor).mean().item())
