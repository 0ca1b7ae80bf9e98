# cause: input-not-on-embedding-device|extra-input-on-wrong-device|block-split-across-devices|embedding-streams-on-different-devices
import torch
from torch import nn
encoder = nn.Linear(8, 8).to("cuda:0")
decoder = nn.Linear(8, 4).to("cuda:1")
x = torch.randn(2, 8, device="cuda:0")
z = encoder(x)
y = decoder(z)
