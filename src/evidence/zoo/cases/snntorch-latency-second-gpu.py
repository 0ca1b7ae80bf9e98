import torch
from snntorch import spikegen

images = torch.rand(4, 9, device="cuda:1")
spikes = spikegen.latency(images, num_steps=5, normalize=True, linear=True)
print(spikes.shape, spikes.sum())
print("SCENARIO OK")
