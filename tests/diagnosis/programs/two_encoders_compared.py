# cause: embedding-streams-on-different-devices|loss-or-label-on-other-device
import torch
from torch import nn
from torch.nn import functional as F

left, right = nn.Linear(6, 4).to("cuda:0"), nn.Linear(6, 4).to("cuda:1")
x = torch.randn(5, 6)
one, two = left(x.to("cuda:0")), right(x.to("cuda:1"))
print(F.cosine_similarity(one, two, dim=-1))
