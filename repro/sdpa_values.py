# small tensors (far below the value limit), yet the result has no values?
import torch
for n in (16, 300, 600, 1500):
    for cont in (True, False):
        q = torch.randn(1, n, 2, 32, device="cuda").permute(0, 2, 1, 3)
        if cont: q = q.contiguous()
        print(n, cont, torch.nn.functional.scaled_dot_product_attention(q, q, q).flatten()[:2].tolist())

# /// expect
# must = "one limit for values, obeyed"
# exit = 0
# prints = ["1500 False ["]
# never = ["[0.5, 0.5]", "nobody computed"]
# ///
