# cause: quantized-state-on-other-device|hard-coded-device
# guilty: hinv (hinv[j, j:], self.H)
# line: 43
# repair: keep the Hessian with its layer: in ColumnQuantizer.__init__ device=layer.weight.device in place of the calibration device OR in run(): hinv = hinv.to(w.device) before the walk
import torch
import torch.nn as nn

CALIBRATION_DEVICE = torch.device("cuda:0")


class ColumnQuantizer:
    """Optimal brain quantisation, one column after the other with error feedback."""

    def __init__(self, layer, bits=4):
        self.layer = layer
        self.bits = bits
        self.H = torch.zeros(layer.in_features, layer.in_features, device=CALIBRATION_DEVICE)
        self.count = 0

    def observe(self, x):
        x = x.reshape(-1, x.shape[-1]).float().to(CALIBRATION_DEVICE)
        self.H *= self.count / (self.count + len(x))
        self.count += len(x)
        self.H += 2.0 / self.count * x.t() @ x

    def grid(self, w):
        top = 2 ** (self.bits - 1) - 1
        scale = w.abs().amax(1) / top
        return scale.clamp(min=1e-8), top

    @torch.no_grad()
    def run(self, damp=0.01):
        w = self.layer.weight.data.clone()
        scale, top = self.grid(w)
        n = w.shape[1]
        h = self.H + damp * self.H.diagonal().mean() * torch.eye(n, device=self.H.device)
        hinv = torch.linalg.cholesky(torch.linalg.inv(h), upper=True)
        total = 0.0
        for j in range(n):
            col = w[:, j]
            q = (col / scale).round().clamp(-top - 1, top) * scale
            err = (col - q) / hinv[j, j].item()
            w[:, j:] -= err[:, None] * hinv[j, j:][None, :]
            w[:, j] = q
            total += err.pow(2).sum().item()
        self.layer.weight.data.copy_(w)
        return total


class Stage(nn.Module):
    def __init__(self, dim, device):
        super().__init__()
        self.device = device
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)
        self.to(device)

    def forward(self, x):
        x = x.to(self.device)
        return x + self.fc2(torch.relu(self.fc1(x)))


def calibrate(stages, batches):
    for depth, stage in enumerate(stages):
        workers = {name: ColumnQuantizer(m) for name, m in stage.named_children()}
        handles = [
            m.register_forward_pre_hook(lambda mod, args, w=workers[name]: w.observe(args[0]))
            for name, m in stage.named_children()
        ]
        with torch.no_grad():
            for x in batches:
                stage(x)
        for handle in handles:
            handle.remove()
        for name, worker in workers.items():
            print(f"stage {depth} {name}: {worker.run():.4f}")
        with torch.no_grad():
            batches = [stage(x) for x in batches]


if __name__ == "__main__":
    torch.manual_seed(4)
    stages = [Stage(24, "cuda:0"), Stage(24, "cuda:1")]
    calibrate(stages, [torch.randn(32, 24) for _ in range(4)])
