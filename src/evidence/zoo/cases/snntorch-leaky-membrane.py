import snntorch
import torch

device = torch.device("cuda:0")
network = torch.nn.Sequential(
    torch.nn.Linear(6, 8),
    snntorch.Leaky(beta=0.9, init_hidden=True),
    torch.nn.Linear(8, 2),
    snntorch.Leaky(beta=0.9, init_hidden=True, output=True),
).to(device)
steps = torch.rand(4, 3, 6, device=device)
spikes = torch.stack([network(step)[0] for step in steps])
print(spikes.sum(0))
print("SCENARIO OK")
