import torch
def f(x):
    bias = torch.ones(4, device="cuda:0")      # the tool's own "safe" fix
    return x + bias
for i in range(2): f(torch.ones(4, device=f"cuda:{i}"))

# /// expect
# must = "the fix takes the device of x"
# exit = 1
# findings = [{code = "SD101", fix = "device=x.device"}]
# ///
