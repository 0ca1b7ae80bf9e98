import torch
from accelerate import cpu_offload


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


model = cpu_offload(Encoder(), execution_device=torch.device("cuda:0"))
with torch.no_grad():
    print(model(torch.randint(10, (2, 6))).device)
print("SCENARIO OK")
