import torch
import torch.nn.functional as F
lp = torch.zeros(5, 2, 4, device="cuda").log_softmax(-1)
print(F.ctc_loss(lp, torch.ones(2, 2, dtype=torch.long, device="cuda"), torch.tensor([5, 5]), torch.tensor([2, 2])))
print(torch.nn.CTCLoss()(lp, torch.ones(4, dtype=torch.int), torch.tensor([5, 5],dtype=torch.int), torch.tensor([2, 2],dtype=torch.int)))

# /// expect
# must = "no finding: the lengths of a CTC loss may be on the host, and its targets"
# exit = 0
# prints = ["tensor(2.1117, device='cuda:0')\ntensor(2.1117, device='cuda:0')"]
# ///
