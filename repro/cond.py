import torch
x = torch.ones(3, device="cuda")
print(torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)).device)

# /// expect
# must = "torch.cond runs"
# exit = 0
# prints = ["cuda:0"]
# ///
