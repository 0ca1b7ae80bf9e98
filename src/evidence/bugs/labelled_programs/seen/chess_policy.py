# cause: input-not-on-embedding-device
# guilty: board
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(12, 16, 3, padding=1)
        self.head = nn.Linear(16 * 64, 20)

    def forward(self, board):
        return self.head(torch.relu(self.first(board)).flatten(1))


policy = Policy().to("cuda:0")
board = torch.zeros(1, 12, 8, 8)
board[0, 0, 1] = 1
with torch.no_grad():
    print(policy(board).argmax(-1).item())
