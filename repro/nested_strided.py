import torch
print(torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], device="cuda").device)

# /// expect
# must = "works, or one error of ours that names the feature"
# exit = 0
# refused = true
# ///
