import torch
from pytorch_optimizer import AdaFactor

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)).to("cuda:0")
optimizer = AdaFactor(model.parameters(), lr=1e-3)
for _ in range(2):
    loss = model(torch.randn(4, 8, device="cuda:0")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("SCENARIO OK")
