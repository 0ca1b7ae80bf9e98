import torch
from pytorch_ood.loss import DeepSVDDLoss

criterion = DeepSVDDLoss(4).to("cuda:0")
features = torch.randn(6, 4, device="cuda:0", requires_grad=True)
labels = torch.tensor([0, 1, -1, 2, 0, -1], device="cuda:0")
loss = criterion(features, labels)
loss.backward()
print(loss)
print("SCENARIO OK")
