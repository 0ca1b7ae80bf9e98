import torch
from accelerate import dispatch_model


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = torch.nn.Parameter(torch.randn(6, 8))
        self.embed = torch.nn.Embedding(10, 8)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, ids):
        hidden = self.embed(ids)
        hidden = hidden + self.positions
        for layer in self.layers:
            hidden = layer(hidden).relu()
        return hidden


device_map = {"positions": 0, "embed": 0, "layers.0": 0, "layers.1": 1}
model = dispatch_model(Encoder(), device_map)
print(model(torch.randint(10, (2, 6), device="cuda:0")).device)
print("SCENARIO OK")
