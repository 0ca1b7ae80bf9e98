import torch
from opacus.layers import DPLSTM
from torch.nn.utils.rnn import pack_padded_sequence

device = torch.device("cuda:0")
lstm = DPLSTM(4, 8, batch_first=True).to(device)
head = torch.nn.Linear(8, 2).to(device)
batch = pack_padded_sequence(torch.randn(3, 5, 4, device=device), [5, 3, 2], batch_first=True)
_, (last, _) = lstm(batch)
logits = head(last[-1])
loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1], device=device))
loss.backward()
print(loss)
print("SCENARIO OK")
