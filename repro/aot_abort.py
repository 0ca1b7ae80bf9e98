import torch
from torch._subclasses.fake_tensor import FakeTensorMode
lin = torch.nn.Linear(2, 2).cuda()
with FakeTensorMode(allow_non_fake_inputs=True):
    print(lin(torch.ones(2, 2, device="cuda", requires_grad=True)).device)

# /// expect
# must = "a FakeTensorMode over a GPU module works, and never ends the process"
# exit = 0
# prints = ["cuda:0"]
# ///
