from torch import nn
from torch.nn import functional as F


def smoothed(x, filter):
    return F.conv1d(x, filter, padding=1)


class Smooth(nn.Module):
    def __init__(self, window, device="cpu"):
        super().__init__()
        self.window = nn.Parameter(window, requires_grad=False).to(device)

    def forward(self, x):
        return smoothed(x, self.window)
