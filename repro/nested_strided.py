import torch
print(torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], device="cuda").device)

# /// expect
# must = "refused by name: nested tensors of strided layout on a GPU"
# exit = 3
# says = ["Nested tensors of strided layout are not supported on GPUs of a virtual machine"]
# ///
