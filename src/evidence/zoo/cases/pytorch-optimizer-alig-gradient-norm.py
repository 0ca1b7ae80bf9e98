import torch
from pytorch_optimizer import AliG

model = torch.nn.Linear(6, 1).to("cuda:0")
optimizer = AliG(model.parameters(), max_lr=0.1)
for _ in range(2):
    loss = (model(torch.randn(5, 6, device="cuda:0")) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(lambda: float(loss))
print("SCENARIO OK")
