# cause: tensor-created-on-wrong-device
# guilty: ?
import torch
from torch import nn


def postprocess(logits, threshold=0.5):
    scores = logits.softmax(-1)
    labels = torch.arange(logits.shape[-1]).repeat(logits.shape[0], 1)
    keep = scores > threshold
    return scores[keep], torch.where(keep, labels, torch.full_like(scores, -1).long())


net = nn.Linear(8, 3).to("cuda:1")
print(postprocess(net(torch.randn(4, 8, device="cuda:1"))))
