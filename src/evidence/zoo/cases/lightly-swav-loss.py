import torch
from lightly.loss import SwaVLoss

criterion = SwaVLoss()
high = [torch.randn(4, 6, device="cuda:0", requires_grad=True) for _ in range(2)]
low = [torch.randn(4, 6, device="cuda:0", requires_grad=True) for _ in range(3)]
loss = criterion(high, low)
loss.backward()
print(loss)
print("SCENARIO OK")
