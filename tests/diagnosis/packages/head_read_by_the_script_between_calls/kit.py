from torch import nn


class Streamed:
    """A model whose weights come to a GPU for each call."""

    def __init__(self, model, device):
        self.model, self.device = model, device

    def _send(self, device):
        for each in self.model.parameters():
            each.data = each.data.to(device)

    def __call__(self, x):
        self._send(self.device)
        result = self.model(x)
        self._send("cpu")
        return result


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 3, bias=False)

    def forward(self, x):
        return self.body(x)
