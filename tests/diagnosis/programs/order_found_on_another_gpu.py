# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: order
"""The order of rows is found on a second GPU that has nothing to do, and used on the first."""

import torch

IDLE = torch.device("cuda", 1)


def order_of(rows):
    return rows.sum(1).to(IDLE).argsort()


def by_norm(rows):
    order = order_of(rows)
    return torch.gather(rows, 0, order[:, None].expand(-1, rows.shape[1]))


table = torch.rand(6, 3, device="cuda:0")
print(by_norm(table).shape)
