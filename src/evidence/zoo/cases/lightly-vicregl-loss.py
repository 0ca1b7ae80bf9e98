import torch
from lightly.loss import VICRegLLoss

criterion = VICRegLLoss(num_matches=(2, 1))
views = [
    (torch.randn(4, 6, device="cuda:0", requires_grad=True), torch.randn(4, 3, 3, 5, device="cuda:0"))
    for _ in range(2)
]
grids = [torch.rand(4, 3, 3, 2, device="cuda:0") for _ in range(2)]
loss = criterion(global_view_features=views, global_view_grids=grids)
loss.sum().backward()
print(loss)
print("SCENARIO OK")
