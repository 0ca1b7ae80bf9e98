# cause: quantized-state-on-other-device|tensor-created-on-wrong-device
# guilty: diag (H or damp_idx)
# after: ModelCloud/GPTQModel#2981
import torch
import torch.nn as nn

class Quantizer:
    def __init__(self, bits=4):
        self.maxq = 2 ** bits - 1
    def find_params(self, w):
        lo, hi = w.amin(1, keepdim=True).clamp(max=0), w.amax(1, keepdim=True).clamp(min=0)
        self.scale = ((hi - lo) / self.maxq).clamp(min=1e-6)
        self.zero = torch.round(-lo / self.scale)
    def quantize(self, col):
        q = torch.clamp(torch.round(col / self.scale) + self.zero, 0, self.maxq)
        return self.scale * (q - self.zero)
class QQQ:
    def __init__(self, layer, hessian_device="cpu"):
        self.layer = layer
        self.dev = layer.weight.device
        self.rows, self.columns = layer.weight.shape
        self.hessian_device = torch.device(hessian_device)
        self.partials = {}
        self.nsamples = 0
        self.quantizer = Quantizer()
    def add_batch(self, inp):
        inp = inp.reshape(-1, inp.shape[-1]).t().float()
        self.nsamples += inp.shape[1]
        part = self.partials.setdefault(inp.device, torch.zeros(self.columns, self.columns, device=inp.device))
        part.addmm_(inp, inp.t())
    def materialize_hessian(self):
        total = torch.zeros(self.columns, self.columns, device=self.hessian_device)
        while self.partials:
            _, partial = self.partials.popitem()
            total += partial.to(self.hessian_device)
        return total * (2.0 / self.nsamples)
    @torch.no_grad()
    def quantize(self, percdamp=0.01):
        W = self.layer.weight.data.clone().float()
        self.quantizer.find_params(W)
        H = self.materialize_hessian()
        damp = percdamp * torch.mean(torch.diag(H)).item()
        diag = torch.arange(self.columns, device=self.dev)
        H[diag, diag] += damp
        Hinv = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(H)), upper=True).to(self.dev)
        Q = torch.zeros_like(W)
        for i in range(self.columns):
            Q[:, i] = self.quantizer.quantize(W[:, i:i + 1])[:, 0]
            err = (W[:, i] - Q[:, i]) / Hinv[i, i]
            W[:, i:] -= err[:, None] * Hinv[i, i:][None]
        self.layer.weight.data = Q.to(self.layer.weight.dtype)

class Looper:
    def __init__(self, model):
        self.tasks = {n: QQQ(m) for n, m in model.named_modules() if isinstance(m, nn.Linear)}
        self.handles = [t.layer.register_forward_hook(lambda m, i, o, t=t: t.add_batch(i[0].detach()))
                        for t in self.tasks.values()]
    def run(self, model, calibration):
        with torch.no_grad():
            for batch in calibration:
                model(batch)
        for handle in self.handles:
            handle.remove()
        for name, task in self.tasks.items():
            task.quantize()
            print("quantized", name)

if __name__ == "__main__":
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16)).to("cuda")
    Looper(mlp).run(mlp, [torch.randn(8, 4, 16, device="cuda") for _ in range(3)])
