import torch
m = torch.nn.Linear(5, 2).cuda()
ep = torch.export.export(m, (torch.randn(2, 5, device="cuda"),), strict=False)
print(ep.module()(torch.randn(2, 5, device="cuda")).device)

# /// expect
# must = "a GPU module is exported and runs"
# exit = 0
# prints = ["cuda:0"]
# ///
