import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
p = pack_padded_sequence(torch.ones(2,3,4,device="cuda"), torch.tensor([3,2]), batch_first=True)
y,_ = torch.nn.LSTM(4,4,batch_first=True).cuda()(p)
print(pad_packed_sequence(y, batch_first=True)[0].shape)
p = pack_padded_sequence(torch.ones(2,3,4,device="cuda"), torch.tensor([3,2],device="cuda"), batch_first=True)

# /// expect
# must = "lengths and batch sizes stay on the host; lengths on the GPU are found, in torch's words"
# exit = 1
# findings = [{code = "SD101", message = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"}]
# prints = ["torch.Size([2, 3, 4])"]
# ///
