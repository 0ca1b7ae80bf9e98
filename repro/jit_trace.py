import torch
m = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).cuda().eval()
print(torch.jit.trace(m, torch.ones(1, 3, 8, 8, device="cuda"))(torch.ones(1, 3, 8, 8, device="cuda")).device)

# /// expect
# must = "the tracer of TorchScript is refused with tensors on a GPU, with what to do instead"
# exit = 3
# says = ["torch.jit.trace with tensors on a GPU is not supported on a virtual machine"]
# ///
