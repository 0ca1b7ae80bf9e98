import torch
print(torch.func.jacfwd(torch.sin)(torch.ones(3, device="cuda")).device)

# /// expect
# must = "works"
# exit = 0
# prints = ["cuda:0"]
# ///
