# cause: loss-or-label-on-other-device
# guilty: ?
import torch
from torch import nn

student = nn.Linear(8, 4).to("cuda:0")
teacher = nn.Linear(8, 4).to("cuda:1")
x = torch.randn(4, 8)
with torch.no_grad():
    wanted = teacher(x.to("cuda:1")).softmax(-1)
given = student(x.to("cuda:0")).log_softmax(-1)
print(nn.functional.kl_div(given, wanted))
