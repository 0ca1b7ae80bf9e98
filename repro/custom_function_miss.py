import torch
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.to("cuda:1") * 2
    @staticmethod
    def backward(ctx, g): return g * 2          # forgot .to(x.device): hardware: "expected device cuda:0 but got cuda:1"
x = torch.ones(4, device="cuda:0", requires_grad=True)
F.apply(x).sum().backward(); print(x.grad.device)
y = torch.ones(4, device="cuda:0", requires_grad=True)
try: y.grad = torch.ones(4, device="cuda:1"); print("grad set", y.grad.device)
except RuntimeError as e: print("refused", e)
try: y.register_hook(lambda g: g.to("cuda:1")); (y*2).sum().backward(); print("hook", y.grad.device)
except RuntimeError as e: print("refused", e)

# /// expect
# must = "found in torch's words; a hook that changes the device is accepted, as torch accepts it"
# exit = 1
# findings = [{message = "Function FBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cuda:1"}, {message = "attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'"}]
# prints = ["cuda:0\ngrad set cuda:0"]
# ///
