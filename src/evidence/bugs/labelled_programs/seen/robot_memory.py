# cause: cache-or-beam-state-on-wrong-device
# guilty: memory
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.act = nn.Linear(8, 3)

    def forward(self, seen, memory):
        memory = self.cell(seen, memory)
        return self.act(memory).argmax(-1), memory


agent = Agent().to("cuda:0")
memory = torch.zeros(2, 8)
with torch.no_grad():
    for _ in range(3):
        seen = torch.rand(2, 4, device="cuda:0")
        action, memory = agent(seen, memory)
        print(action.tolist())
