import torch
m = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).cuda().eval()
print(torch.jit.trace(m, torch.ones(1, 3, 8, 8, device="cuda"))(torch.ones(1, 3, 8, 8, device="cuda")).device)

# /// expect
# must = "works, or one error of ours that names the feature"
# exit = 0
# refused = true
# ///
