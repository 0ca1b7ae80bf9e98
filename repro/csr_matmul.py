import torch
c = torch.eye(4, device="cuda").to_sparse_csr()
print((c @ torch.randn(4, 3, device="cuda")).device)

# /// expect
# must = "works, or one error of ours that names the feature"
# exit = 0
# refused = true
# ///
