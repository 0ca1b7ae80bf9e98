# A list of sequences on the GPU, longest first: `pack_sequence` makes its batch sizes on the host.
import torch
from torch import nn

rows = [torch.ones(3, 4, device="cuda"), torch.ones(2, 4, device="cuda")]
packed = nn.utils.rnn.pack_sequence(rows)
out, _ = nn.GRU(4, 8).cuda()(packed)
print(packed.batch_sizes, out.data.device)

# /// expect
# must = "batch sizes stay on the host"
# exit = 0
# prints = ["tensor([2, 2, 1]) cuda:0"]
# ///
