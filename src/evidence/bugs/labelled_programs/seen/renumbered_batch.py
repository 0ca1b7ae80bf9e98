# cause: tensor-created-on-wrong-device
# guilty: order (order[kept])
# after: pyg-team/pytorch_geometric#4910
import torch
from torch import nn


def compact(ids):
    """Numbers from 0 for the ids that occur."""
    kept = torch.zeros(int(ids.max()) + 1, dtype=torch.bool, device=ids.device)
    kept[ids] = True
    order = torch.arange(int(kept.sum()))
    numbers = ids.new_full((len(kept),), -1)
    numbers = numbers.masked_scatter(kept, order)
    return numbers[ids], len(order)


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(5, 1)

    def forward(self, x, cluster):
        cluster, count = compact(cluster)
        weighted = x * self.score(x).sigmoid()
        return x.new_zeros(count, x.shape[1]).index_add(0, cluster, weighted)


device = "cuda:0"
pool = Pool().to(device)
x = torch.randn(8, 5, device=device)
print(pool(x, torch.tensor([3, 3, 7, 1, 1, 7, 9, 3], device=device)).shape)
