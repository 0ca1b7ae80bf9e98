# cause: tensor-created-on-wrong-device|metric-state-device
# guilty: self.embed (codes or self.embed.t())
# after: lucidrains/vector-quantize-pytorch#66
import torch
from torch import nn


def centres(rows, count, rounds=3):
    rows = rows.detach().cpu()
    means = rows[torch.randperm(len(rows))[:count]].clone()
    for _ in range(rounds):
        nearest = torch.cdist(rows, means).argmin(-1)
        for k in range(count):
            if (nearest == k).any():
                means[k] = rows[nearest == k].mean(0)
    return means


class Codebook(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.count, self.ready = count, False
        self.register_buffer("embed", torch.zeros(count, width))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        if not self.ready:
            self.embed = centres(rows, self.count)
            self.ready = True
        far = rows.square().sum(-1, keepdim=True) - 2 * rows @ self.embed.t()
        return self.embed[far.argmin(-1)].view_as(x)


encoder, codes = nn.Linear(6, 4).to("cuda:0"), Codebook(5, 4).to("cuda:0")
print(codes(encoder(torch.randn(2, 10, 6, device="cuda:0"))).shape)
