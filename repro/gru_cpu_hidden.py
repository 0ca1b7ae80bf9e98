import torch
g = torch.nn.GRU(4, 4).to("cuda:0")
y, _ = g(torch.ones(3, 2, 4, device="cuda:0"), torch.zeros(1, 2, 4))
c = torch.nn.LSTMCell(4, 4).to("cuda:1")
print(c(torch.ones(2, 4, device="cuda:1"), (torch.zeros(2, 4), torch.zeros(2, 4)))[0].device)
r = torch.nn.RNN(4,4).cuda()
r(torch.ones(3,2,4))

# /// expect
# must = "found, with cuDNN's words"
# exit = 1
# findings = [{message = "found input tensor at cuda:0 and hidden tensor at cpu"}, {op = "aten.mm", message = "got mat2 is on cuda:1, different from other tensors on cpu"}, {op = "aten._thnn_fused_lstm_cell"}, {message = "found input tensor at cpu and parameter tensor at cuda:0"}]
# prints = ["cuda:1"]
# never = ["meta"]
# ///
