# cause: quantized-state-on-other-device|block-split-across-devices
# guilty: incoming (outgoing, r_in)
# line: 42
# repair: in Equaliser.scale_between bring both ranges to one device (incoming.to(outgoing.device)); apply() already moves the scale to each weight
"""Post-training quantiser with cross-layer equalisation over a net that lies on two cards."""
import torch
import torch.nn as nn


class Observer:
    """Range of what enters a layer, on the card of the layer."""

    def __init__(self, module):
        self.limit = None
        self.handle = module.register_forward_pre_hook(self.watch)

    def watch(self, module, args):
        top = args[0].detach().abs().amax()
        self.limit = top if self.limit is None else torch.maximum(self.limit, top)


class StagedMLP(nn.Module):
    def __init__(self, widths, cards):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(widths, widths[1:]))
        for k, layer in enumerate(self.layers):
            layer.to(cards[k * len(cards) // len(self.layers)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x.to(layer.weight.device)))
        return self.layers[-1](x.to(self.layers[-1].weight.device))


class Equaliser:
    def __init__(self, rounds=2):
        self.rounds = rounds

    def scale_between(self, first, second):
        outgoing = first.weight.detach().abs().amax(1)
        incoming = second.weight.detach().abs().amax(0)
        return (outgoing / incoming.clamp_min(1e-6)).sqrt().clamp(0.1, 10.0)

    @torch.no_grad()
    def apply(self, layers):
        for _ in range(self.rounds):
            for first, second in zip(layers, layers[1:]):
                scale = self.scale_between(first, second)
                first.weight.div_(scale.to(first.weight.device)[:, None])
                first.bias.div_(scale.to(first.bias.device))
                second.weight.mul_(scale.to(second.weight.device))


class Quantiser:
    def __init__(self, model, bits=8):
        self.model, self.levels = model, 2 ** (bits - 1) - 1
        self.observers = [Observer(layer) for layer in model.layers]

    @torch.no_grad()
    def calibrate(self, batches):
        for x in batches:
            self.model(x)
        return [o.limit.item() / self.levels for o in self.observers]

    @torch.no_grad()
    def round_weights(self):
        for layer in self.model.layers:
            scale = layer.weight.abs().amax(1, keepdim=True) / self.levels
            layer.weight.copy_((layer.weight / scale).round() * scale)


def quantise(model, batches):
    Equaliser().apply(list(model.layers))
    quantiser = Quantiser(model)
    scales = quantiser.calibrate(batches)
    quantiser.round_weights()
    return scales


if __name__ == "__main__":
    torch.manual_seed(0)
    net = StagedMLP([10, 24, 24, 24, 4], ["cuda:0", "cuda:1"])
    probe = torch.randn(16, 10)
    before = net(probe)
    print(quantise(net, [torch.randn(32, 10) for _ in range(3)]))
    print((net(probe) - before).abs().max().item())
