# cause: tensor-created-on-wrong-device
# guilty: ?
import torch
from torch import nn


class TopK(nn.Module):
    """A metric beside the model, with its state where the predictions are."""

    def __init__(self, classes, device):
        super().__init__()
        self.register_buffer("hits", torch.zeros(classes, device=device))

    def update(self, scores):
        ranks = torch.arange(scores.shape[-1])
        best = scores.argmax(-1, keepdim=True)
        self.hits += (ranks == best).sum(0)


model = nn.Linear(8, 4).to("cuda:0")
metric = TopK(4, "cuda:0")
metric.update(model(torch.randn(3, 8, device="cuda:0")))
