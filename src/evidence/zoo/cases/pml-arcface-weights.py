import torch
from pytorch_metric_learning.losses import ArcFaceLoss

trunk = torch.nn.Linear(16, 8).to("cuda:0")
loss_func = ArcFaceLoss(num_classes=4, embedding_size=8, margin=28.6)
labels = torch.tensor([0, 1, 2, 3], device="cuda:0")
loss = loss_func(trunk(torch.randn(4, 16, device="cuda:0")), labels)
loss.backward()
print(loss)
print("SCENARIO OK")
