import torch
x = torch.ones(1, device="cuda:1")
m = torch.nn.Linear(2, 2).to(x)  # Module.to(tensor): to the tensor's device and dtype
print(m.weight.device)
print(m(torch.ones(1, 2, device="cuda:1")).device)

# /// expect
# must = "on the tensor's device"
# exit = 0
# prints = ["cuda:1\ncuda:1"]
# ///
