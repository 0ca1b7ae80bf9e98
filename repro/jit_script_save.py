import torch
s = torch.jit.script(torch.nn.Linear(2, 2).cuda())
s.save("s.pt")

# /// expect
# must = "works, or one error of ours that names the feature"
# exit = 0
# refused = true
# ///
