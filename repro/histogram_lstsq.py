import torch
s = torch.eye(3, device="cuda")
print(torch.histogram(s, 5)[0].device)
print(torch.linalg.lstsq(s, s, driver="gelsd").solution.device)

# /// expect
# must = "refused as CUDA does"
# exit = 3
# ///
