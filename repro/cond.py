import torch
x = torch.ones(3, device="cuda")
print(torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)).device)

# /// expect
# must = "works, or one error of ours that names the feature"
# exit = 0
# refused = true
# ///
