# cause: meta-tensor-not-materialized|unmaterialized-weights
# guilty: self.gain
import io

import torch
from accelerate import init_empty_weights
from torch import nn


class Old(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.up = nn.Linear(10, d)
        self.down = nn.Linear(d, 2)

    def forward(self, x):
        return self.down(self.up(x).relu())


class New(Old):
    def __init__(self, d=24):
        super().__init__(d)
        self.gain = nn.Parameter(torch.ones(d))

    def forward(self, x):
        h = self.up(x).relu()
        h = h * self.gain
        return self.down(h)


def release():
    file = io.BytesIO()
    torch.save(Old().state_dict(), file)
    file.seek(0)
    return file


with init_empty_weights():
    model = New()

weights = torch.load(release(), map_location="cuda:1")
model.load_state_dict(weights, strict=False, assign=True)
model.eval()

with torch.no_grad():
    x = torch.randn(3, 10, device="cuda:1")
    y = model(x)
print(y.cpu())
