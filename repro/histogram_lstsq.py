import torch
s = torch.eye(3, device="cuda")
try: print(torch.linalg.lstsq(s, s, driver="gelsd").solution.device)
except RuntimeError as e: print(e)
print(torch.histogram(s, 5)[0].device)

# /// expect
# must = "refused as CUDA does"
# exit = 3
# prints = ["torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA"]
# says = ["NotImplementedError: Could not run 'aten::histogram.bin_ct' with arguments from the 'CUDA' backend."]
# ///
