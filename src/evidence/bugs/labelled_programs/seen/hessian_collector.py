# cause: quantized-state-on-other-device
# guilty: self.H (H)
"""Post-training quantization with second-order statistics of a model over two GPUs."""
import torch
import torch.nn as nn


class HessianCollector:
    def __init__(self, layer, dev):
        self.layer = layer
        self.columns = layer.weight.shape[1]
        self.H = torch.zeros(self.columns, self.columns, device=dev)
        self.samples = 0

    def add_batch(self, inp):
        x = inp.reshape(-1, self.columns).float()
        self.H *= self.samples / (self.samples + x.shape[0])
        self.samples += x.shape[0]
        self.H += (2 / self.samples) * (x.t() @ x)

    def quantize(self, bits=4, damp=0.01):
        W = self.layer.weight.data.clone()
        diag = torch.arange(self.columns, device=W.device)
        H = self.H.clone()
        H[diag, diag] += damp * H.diagonal().mean()
        Hinv = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(H)), upper=True)
        scale = W.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
        for i in range(self.columns):
            q = (W[:, i:i + 1] / scale).round().clamp(-8, 7) * scale
            err = (W[:, i:i + 1] - q) / Hinv[i, i]
            W[:, i + 1:] -= err @ Hinv[i:i + 1, i + 1:]
            W[:, i:i + 1] = q
        self.layer.weight.data.copy_(W)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


class TwoCardMLP(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def split(self, devices):
        for i, block in enumerate(self.blocks):
            block.to(devices[i * len(devices) // len(self.blocks)])
        return self

    def forward(self, x):
        for block in self.blocks:
            x = block(x.to(block.fc1.weight.device))
        return x


class Quantizer:
    def __init__(self, model, bits):
        self.model, self.bits = model, bits
        self.dev = next(model.parameters()).device

    def run(self, batches):
        collectors, handles = {}, []
        for name, layer in self.model.named_modules():
            if isinstance(layer, nn.Linear):
                collector = collectors[name] = HessianCollector(layer, self.dev)
                handles.append(layer.register_forward_hook(lambda m, a, o, c=collector: c.add_batch(a[0])))
        with torch.no_grad():
            for batch in batches:
                self.model(batch)
        for handle in handles:
            handle.remove()
        for name, collector in collectors.items():
            collector.quantize(self.bits)
            print("quantized", name)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = TwoCardMLP(16, 4).split(["cuda:0", "cuda:1"])
    Quantizer(model, bits=4).run([torch.randn(64, 16, device="cuda:0") for _ in range(4)])
