# cause: tensor-created-on-wrong-device
# guilty: share
import kit
import torch
from torch import nn

critic = nn.Linear(4, 1).to("cuda:0")
maker = nn.Linear(2, 4).to("cuda:0")
fake = maker(torch.randn(5, 2, device="cuda:0"))
loss = critic(fake).mean() + kit.gradient_penalty(critic, torch.randn(5, 4, device="cuda:0"), fake)
loss.backward()
