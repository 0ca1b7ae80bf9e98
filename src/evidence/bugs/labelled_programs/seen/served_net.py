# cause: dispatched-model-moved
# guilty: self.body
import torch
from accelerate import dispatch_model
from torch import nn

torch.manual_seed(29)


class Forecaster(nn.Module):
    def __init__(self, series=6, width=24, ahead=3):
        super().__init__()
        self.stem = nn.Conv1d(series, width, 3, padding=1)
        self.body = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1), nn.GELU(),
            nn.Conv1d(width, width, 3, padding=1), nn.GELU(),
        )
        self.head = nn.Linear(width, ahead)

    def forward(self, x):
        x = self.stem(x)
        x = self.body(x)
        return self.head(x.mean(dim=-1))


def load(plan):
    net = Forecaster()
    weights = {k: torch.full_like(v, 0.02) for k, v in net.state_dict().items()}
    net.load_state_dict(weights)
    return dispatch_model(net.eval(), device_map=plan)


class Service:
    def __init__(self, net, device):
        self.device = torch.device(device)
        self.net = net.to(self.device)

    @torch.no_grad()
    def predict(self, window):
        return self.net(window.to(self.device)).cpu()


net = load({"stem": 0, "body": 1, "head": 1})
service = Service(net, "cuda:0")
for day in range(2):
    print(day, service.predict(torch.randn(4, 6, 20)).tolist())
