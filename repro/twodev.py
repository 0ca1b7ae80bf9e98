import torch
def f(x):
    bias = torch.ones(4)
    return x + bias
for i in range(2):
    f(torch.ones(4, device=f"cuda:{i}"))

# /// expect
# must = "the fix takes the device of x"
# exit = 1
# findings = [{code = "SD101", fix = "device=x.device"}]
# ///
