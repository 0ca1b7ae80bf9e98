import torch
lstm = torch.nn.LSTM(4, 4).to("cuda:0")
h = (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))     # forgot device=
y, _ = lstm(torch.ones(3, 2, 4, device="cuda:0"), h)
print(y.shape, y.device)

# /// expect
# must = "found, with cuDNN's words"
# exit = 1
# findings = [{code = "SD101", message = "Input and hidden tensors are not at the same device"}]
# prints = ["cuda:0"]
# never = ["meta"]
# ///
