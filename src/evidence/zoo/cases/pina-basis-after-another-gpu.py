import torch
from pina.model.block import PODBlock

snapshots = torch.rand(12, 30)
block = PODBlock(rank=3, scale_coefficients=False).to("cuda:0")
block.fit(snapshots.to("cuda:0"), randomized=False)
print(block(snapshots.to("cuda:0")).shape)

block = block.to("cuda:1")
coefficients = block(snapshots.to("cuda:1"))
print(block.expand(coefficients).shape)
print("SCENARIO OK")
