# False alarm SD101 "div got operands on cuda:0 and cpu": on CUDA the lengths of ctc_loss may be on the host (LossCTC.cpp reads them there).
import torch
from torch import nn
logits = torch.randn(50, 4, 20, device="cuda:0").log_softmax(2)
targets = torch.randint(1, 20, (4, 10), device="cuda:0")
loss = nn.CTCLoss()(logits, targets, torch.full((4,), 50), torch.full((4,), 10))
print(loss.device)

# /// expect
# must = "no finding: the lengths of a CTC loss may be on the host"
# exit = 0
# ///
