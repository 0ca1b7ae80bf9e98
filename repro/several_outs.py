import torch
x = torch.tensor([3.0, 1.0, 2.0], device="cuda:0")
values, indices = torch.empty(3, device="cuda:0"), torch.empty(3, dtype=torch.long)  # the second is on the host
torch.sort(x, out=(values, indices))  # noted; and what is on the host must hold the result as the run goes on
print(values.tolist(), indices.tolist())

# /// expect
# must = "the output on the host is written"
# exit = 1
# prints = ["[1.0, 2.0, 3.0] [1, 2, 0]"]
# ///
