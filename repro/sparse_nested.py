import torch
for f in (lambda: torch.nested.nested_tensor([torch.ones(2,3,device="cuda")]), lambda: torch.eye(3,device="cuda").to_sparse_csr()@torch.ones(3,3,device="cuda")):
    try: f()
    except Exception as e: print(type(e).__name__, str(e)[:160])

# /// expect
# must = "CSR works; strided nested tensors are refused by name"
# exit = 0
# prints = ["UnsupportedFeatureError Nested tensors of strided layout"]
# never = ["INTERNAL ASSERT"]
# ///
