import torch
print(torch.func.jacfwd(torch.sin)(torch.ones(3, device="cuda")).device)

# /// expect
# must = "forward-mode differentiation works"
# exit = 0
# prints = ["cuda:0"]
# ///
