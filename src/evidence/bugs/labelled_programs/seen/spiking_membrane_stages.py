# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.mem[i] (mem, self.mem)
# line: 32
# repair: in reset_state allocate each membrane on the device of its own layer (`self.layers[i].weight.device`) instead of the device of the first parameter OR move self.mem[i] to current.device in forward
"""Leaky integrate-and-fire network for event camera gestures, cut over two cards."""
import torch
import torch.nn as nn


class SpikingNet(nn.Module):
    def __init__(self, sizes, beta=0.9, threshold=1.0):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.beta = beta
        self.threshold = threshold
        self.mem = []

    def split(self, first, second):
        half = len(self.layers) // 2
        for i, layer in enumerate(self.layers):
            layer.to(first if i < half else second)
        return self

    def reset_state(self, batch):
        device = next(self.parameters()).device
        self.mem = [torch.zeros(batch, layer.out_features, device=device) for layer in self.layers]

    def forward(self, frame):
        spikes = frame
        for i, layer in enumerate(self.layers):
            current = layer(spikes.to(layer.weight.device))
            potential = self.beta * self.mem[i] + current
            spikes = (potential > self.threshold).float()
            self.mem[i] = potential - spikes * self.threshold
        return spikes


def count_spikes(net, events):
    net.reset_state(events.shape[1])
    total = None
    for frame in events:
        out = net(frame)
        total = out if total is None else total + out
    return total


if __name__ == "__main__":
    torch.manual_seed(0)
    net = SpikingNet([64, 48, 32, 10]).split("cuda:0", "cuda:1")
    events = (torch.rand(12, 8, 64) > 0.7).float().to("cuda:0")
    with torch.no_grad():
        rates = count_spikes(net, events) / len(events)
    print("predicted gesture", rates.argmax(dim=1).tolist())
