# cause: generator-or-default-device
# guilty: self.rng (generator)
# line: 18
# repair: in StripeMasker.__init__ create the generator on the device of the spectrograms (`torch.Generator(device=device)`) OR in draw() draw on the CPU and move the numbers to spec.device
"""Spectrogram augmentation (time and frequency stripes) before a keyword recogniser."""
import torch
import torch.nn as nn


class StripeMasker:
    def __init__(self, n_freq=2, n_time=2, width=6, seed=0):
        self.n_freq, self.n_time, self.width = n_freq, n_time, width
        self.rng = torch.Generator()
        self.rng.manual_seed(seed)

    def draw(self, spec, axis):
        size = spec.shape[axis]
        u = torch.rand(2, len(spec), generator=self.rng, device=spec.device)
        width = u[0] * self.width
        start = u[1] * (size - width)
        pos = torch.arange(size, device=spec.device)
        return (pos >= start[:, None]) & (pos < (start + width)[:, None])

    def __call__(self, spec):
        for _ in range(self.n_freq):
            spec = spec.masked_fill(self.draw(spec, 1)[:, :, None], 0.0)
        for _ in range(self.n_time):
            spec = spec.masked_fill(self.draw(spec, 2)[:, None, :], 0.0)
        return spec


class Augmented(nn.Module):
    """Masks in training, passes through in evaluation."""

    def __init__(self, masker, net):
        super().__init__()
        self.masker = masker
        self.net = net

    def forward(self, spec):
        if self.training:
            spec = self.masker(spec)
        return self.net(spec)


def keyword_net(bins=20, classes=5):
    return nn.Sequential(nn.Conv1d(bins, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
                         nn.Flatten(), nn.Linear(32, classes))


def synthetic(device):
    return torch.rand(8, 20, 50, device=device), torch.randint(0, 5, (8,), device=device)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    model = Augmented(StripeMasker(seed=7), keyword_net()).to(device)
    model.eval()
    with torch.no_grad():
        print("before", model(synthetic(device)[0]).argmax(-1).tolist())
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        spec, label = synthetic(device)
        loss = nn.functional.cross_entropy(model(spec), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())
