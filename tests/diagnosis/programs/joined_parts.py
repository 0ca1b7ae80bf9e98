# cause: data-parallel-replica-device
import torch
from torch import nn

layers = [nn.Linear(8, 8).to(f"cuda:{i}") for i in range(2)]
x = torch.randn(4, 8)
parts = [layer(chunk.to(layer.weight.device)) for layer, chunk in zip(layers, x.chunk(2))]
out = torch.cat(parts)
