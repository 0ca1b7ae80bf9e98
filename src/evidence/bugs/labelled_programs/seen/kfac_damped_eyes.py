# cause: optimizer-state-on-other-device|tensor-created-on-wrong-device
# guilty: self.eye(n, ...) (eye, the identity, self.eyes[n])
# line: 51
# repair: key the kept identities by size and device (key = (n, like.device)) in Kfac.eye OR return self.eyes[n].to(like.device) OR torch.eye(n, device=like.device) each time
"""K-FAC preconditioning for a multilayer network over two cards."""
import torch
import torch.nn.functional as F
from torch import nn


class LayerStats:
    def __init__(self, layer, decay):
        self.layer = layer
        self.decay = decay
        self.a = self.g = None

    def blend(self, old, new):
        return new if old is None else self.decay * old + (1 - self.decay) * new

    def on_forward(self, module, args):
        if module.training and torch.is_grad_enabled():
            x = args[0].detach()
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            self.a = self.blend(self.a, x.T @ x / len(x))

    def on_backward(self, module, grad_in, grad_out):
        g = grad_out[0].detach() * len(grad_out[0])
        self.g = self.blend(self.g, g.T @ g / len(g))


class Kfac:
    def __init__(self, model, lr=0.02, damping=0.1, decay=0.9):
        self.lr, self.damping = lr, damping
        self.stats = []
        self.eyes = {}
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                stats = LayerStats(layer, decay)
                layer.register_forward_pre_hook(stats.on_forward)
                layer.register_full_backward_hook(stats.on_backward)
                self.stats.append(stats)

    def eye(self, n, like):
        if n not in self.eyes:
            self.eyes[n] = torch.eye(n, dtype=like.dtype, device=like.device)
        return self.eyes[n]

    def damped_inverse(self, factor):
        n = factor.shape[0]
        scale = (factor.trace() / n).clamp(min=1e-6)
        damped = factor + self.damping * scale * self.eye(n, factor)
        return torch.linalg.inv(damped)

    @torch.no_grad()
    def step(self):
        for stats in self.stats:
            layer = stats.layer
            grad = torch.cat([layer.weight.grad, layer.bias.grad[:, None]], dim=1)
            natural = self.damped_inverse(stats.g) @ grad @ self.damped_inverse(stats.a)
            layer.weight.sub_(self.lr * natural[:, :-1])
            layer.bias.sub_(self.lr * natural[:, -1])
            layer.weight.grad = layer.bias.grad = None


class Tower(nn.Module):
    def __init__(self, widths, device):
        super().__init__()
        layers = []
        for fin, fout in zip(widths[:-1], widths[1:]):
            layers += [nn.Linear(fin, fout), nn.Tanh()]
        self.net = nn.Sequential(*layers).to(device)
        self.device = torch.device(device)

    def forward(self, x):
        return self.net(x.to(self.device))


class Autoencoder(nn.Module):
    def __init__(self, features, width, code, devices):
        super().__init__()
        self.encode = Tower([features, width, code], devices[0])
        self.decode = Tower([code, width, features], devices[1])

    def forward(self, x):
        return self.decode(self.encode(x))


def curves(count, points):
    t = torch.linspace(0, 1, points)
    a, b = torch.rand(count, 1), torch.rand(count, 1)
    return 0.8 * torch.sin(6 * a * t + 3 * b)


def main():
    torch.manual_seed(0)
    model = Autoencoder(20, 14, 4, ["cuda:0", "cuda:1"])
    optimizer = Kfac(model)
    for step in range(4):
        x = curves(32, 20)
        out = model(x)
        loss = F.mse_loss(out, x.to(out.device))
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
