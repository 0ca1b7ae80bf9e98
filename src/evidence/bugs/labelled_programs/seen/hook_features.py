# cause: cache-or-beam-state-on-wrong-device|embedding-streams-on-different-devices|extra-input-on-wrong-device
# guilty: self.taps["low"]
# Low-level features are tapped with forward hooks and joined with the deep ones (a cheap hypercolumn).
import torch
from torch import nn

front, back = torch.device("cuda", 0), torch.device("cuda", 1)


class Hyper(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()).to(front)
        self.deep = nn.Sequential(
            nn.Conv2d(4, 8, 3, padding=2, dilation=2), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        ).to(back)
        self.fuse = nn.Conv2d(12, 2, 1).to(back)
        self.taps = {}
        self.low.register_forward_hook(self._tap("low"))
        self.deep.register_forward_hook(self._tap("deep"))

    def _tap(self, name):
        def hook(module, inputs, output):
            self.taps[name] = output
        return hook

    def forward(self, x):
        h = self.low(x.to(front))
        self.deep(h.to(back))
        joined = torch.cat([self.taps["deep"], self.taps["low"]], dim=1)
        return self.fuse(joined)


def dice(logits, mask):
    prob = logits.softmax(1)[:, 1]
    inter = (prob * mask).sum(dim=(1, 2))
    return 1 - ((2 * inter + 1) / (prob.sum((1, 2)) + mask.sum((1, 2)) + 1)).mean()


torch.manual_seed(5)
net = Hyper()
optimizer = torch.optim.Adam([{"params": net.low.parameters(), "lr": 1e-3}, {"params": list(net.deep.parameters()) + list(net.fuse.parameters())}], lr=3e-3)
for step in range(3):
    img = torch.rand(2, 1, 12, 12)
    mask = (img[:, 0] > 0.5).float().to(back)
    loss = dice(net(img), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.3f}")
