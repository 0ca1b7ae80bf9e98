import torch
from pytorch_ood.loss import EnergyRegularizedLoss

criterion = EnergyRegularizedLoss(alpha=0.1)
logits = torch.randn(6, 3, device="cuda:0", requires_grad=True)
labels = torch.tensor([0, 1, 2, 2, 0, 1], device="cuda:0")
loss = criterion(logits, labels)
loss.backward()
print(loss)
print("SCENARIO OK")
