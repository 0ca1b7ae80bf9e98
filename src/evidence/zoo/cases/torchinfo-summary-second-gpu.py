import torch
from torchinfo import summary

device = torch.device("cuda:1")
network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(device)
print(summary(network, input_size=(4, 8), verbose=0))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = network(torch.randn(4, 8, device=device)).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
print("SCENARIO OK")
