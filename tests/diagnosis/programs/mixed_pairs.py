# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: targets
"""Pairs of images and their classes are mixed on the GPU; only the images were sent there."""

import torch
from torch import nn


def mixed(images, targets, share=0.3):
    order = torch.randperm(len(images), device=images.device)
    together = (1 - share) * images + share * images[order]
    return together, (1 - share) * targets + share * targets[order]


def step(model, optimizer, images, targets):
    images, targets = mixed(images.to("cuda:0"), targets)
    loss = (model(images).log_softmax(-1) * -targets.to("cuda:0")).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.rand(8, 3, 2, 2), torch.eye(3)[torch.randint(0, 3, (8,))])
for images, targets in torch.utils.data.DataLoader(data, batch_size=4):
    print(step(model, optimizer, images, targets))
