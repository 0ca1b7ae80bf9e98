import torch
m = torch.nn.Linear(5, 2).cuda()
ep = torch.export.export(m, (torch.randn(2, 5, device="cuda"),))
print(ep.module()(torch.randn(2, 5, device="cuda")).device)

# /// expect
# must = "works, or one error of ours that names the feature"
# exit = 0
# refused = true
# ///
