# cause: input-not-on-embedding-device|extra-input-on-wrong-device
import numpy as np, torch
from torch import nn
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, obs):
        return self.fc(obs)
p = Policy().to("cuda:0")
obs = np.random.rand(3, 4).astype("float32")
p(torch.from_numpy(obs))
