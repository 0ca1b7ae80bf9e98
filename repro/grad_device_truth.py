import torch   # what torch itself does on a mismatch of devices, shown with cpu/meta
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.to("meta") * 2
    @staticmethod
    def backward(ctx, g): return g * 2
x = torch.ones(4, requires_grad=True)
try: F.apply(x).sum().backward()
except RuntimeError as e: print("torch:", e)
y = torch.ones(4, requires_grad=True)
try: y.grad = torch.ones(4, device="meta")
except RuntimeError as e: print("torch:", e)

# /// expect
# must = "torch's own words"
# command = "python"
# exit = 0
# prints = ["torch: "]
# ///
