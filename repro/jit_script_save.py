import torch
s = torch.jit.script(torch.nn.Linear(2, 2).cuda())
s.save("s.pt")

# /// expect
# must = "a scripted GPU module is saved"
# exit = 0
# ///
