# cause: optimizer-state-on-other-device
# guilty: self.residual[name] (residual)
# line: 24
# repair: create the compressor after the model was placed (move compress(model) behind place(model) in build) OR allocate the residual lazily in the hook with torch.zeros_like(param.grad)
"""Sign-compressed gradients with error feedback, installed as gradient hooks."""
import torch
import torch.nn as nn


class SignCompressor:
    """Every gradient is replaced by its sign times its mean size; what is lost is added next time."""

    def __init__(self, model, decay=1.0):
        self.decay = decay
        self.residual = {}
        self.handles = []
        for name, param in model.named_parameters():
            if param.requires_grad:
                self.residual[name] = torch.zeros_like(param, requires_grad=False)
                self.handles.append(param.register_post_accumulate_grad_hook(self.make_hook(name)))

    def make_hook(self, name):
        def hook(param):
            corrected = param.grad + self.decay * self.residual[name]
            compressed = corrected.sign() * corrected.abs().mean()
            self.residual[name] = corrected - compressed
            param.grad = compressed
        return hook

    def remove(self):
        for handle in self.handles:
            handle.remove()


class Tower(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.low = nn.Sequential(nn.Linear(16, width), nn.ReLU())
        self.high = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))
        self.cards = (None, None)

    def place(self, low, high):
        self.low.to(low)
        self.high.to(high)
        self.cards = (low, high)
        return self

    def forward(self, x):
        return self.high(self.low(x.to(self.cards[0])).to(self.cards[1]))


def build(config):
    model = Tower(config["width"])
    compressor = SignCompressor(model, config["decay"]) if config.get("compress") else None
    model.place(*config["cards"])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    return model, compressor, optimizer


if __name__ == "__main__":
    torch.manual_seed(0)
    settings = {"width": 32, "decay": 0.9, "compress": True, "cards": ("cuda:0", "cuda:1"), "lr": 0.02}
    model, compressor, optimizer = build(settings)
    for step in range(4):
        x, y = torch.randn(16, 16), torch.randint(0, 3, (16,))
        loss = nn.functional.cross_entropy(model(x), y.to("cuda:1"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))
    compressor.remove()
