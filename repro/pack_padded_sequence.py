import torch
from torch import nn
lstm = nn.LSTM(4, 8, batch_first=True).cuda()
packed = nn.utils.rnn.pack_padded_sequence(torch.randn(2, 5, 4, device="cuda"), torch.tensor([5, 3]), batch_first=True)
out, _ = lstm(packed)
print(nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0].device)

# /// expect
# must = "batch sizes stay on the host"
# exit = 0
# prints = ["cuda:0"]
# ///
