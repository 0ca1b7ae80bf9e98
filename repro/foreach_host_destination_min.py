import torch
g = torch.ones(600, 600, device="cuda")
torch._foreach_addcmul_([torch.zeros(600, 600)], [g], [g])

# /// expect
# must = "found, and the run goes on"
# exit = 1
# never = ["meta"]
# ///
