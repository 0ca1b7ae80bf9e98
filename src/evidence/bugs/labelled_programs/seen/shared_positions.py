# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device|rope-table-on-wrong-device
# guilty: waves (_WAVES[key] or self.waves)
# after: pytorch/vision#1255
import torch
from torch import nn

_WAVES = {}


def sinusoid(length, width, device):
    key = (length, width)
    if key not in _WAVES:
        place = torch.arange(length, device=device)[:, None]
        rate = 10000 ** (-torch.arange(0, width, 2, device=device) / width)
        _WAVES[key] = torch.cat([(place * rate).sin(), (place * rate).cos()], -1)
    return _WAVES[key]


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.lift = nn.Linear(3, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 16, batch_first=True)

    def forward(self, x):
        h = self.lift(x)
        waves = sinusoid(h.shape[1], h.shape[2], h.device)
        return self.layer(h + waves)


question, passage = Encoder().to("cuda:0").eval(), Encoder().to("cuda:1").eval()
with torch.no_grad():
    one = question(torch.randn(2, 5, 3, device="cuda:0"))[:, 0]
    other = passage(torch.randn(2, 5, 3, device="cuda:1"))[:, 0]
print((one @ other.to(one.device).t()).diag())
