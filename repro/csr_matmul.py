import torch
c = torch.eye(4, device="cuda").to_sparse_csr()
print((c @ torch.randn(4, 3, device="cuda")).device)

# /// expect
# must = "CSR tensors work on a GPU"
# exit = 0
# prints = ["cuda:0"]
# ///
