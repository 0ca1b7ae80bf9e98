import torch
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s): ctx.save_for_backward(x, s); return x * s
    @staticmethod
    def backward(ctx, g): x, s = ctx.saved_tensors; return g * s, (g * x).sum(0)
x = torch.ones(1, 4, device="cuda:0", requires_grad=True); s = torch.arange(4., requires_grad=True)   # s on the CPU
F.apply(x, s).sum().backward()
print(x.grad.device, s.grad)

# /// expect
# must = "found, and the run goes on to the right gradients"
# exit = 1
# findings = [{code = "SD101", op = "aten.mul.Tensor"}]
# prints = ["cuda:0 tensor([1., 1., 1., 1.])"]
# never = ["meta"]
# ///
