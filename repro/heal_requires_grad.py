# silent: n.grad is None once the call is learned (a gradient asked for on a lent argument goes to the copy)
import torch, samedevice as sd
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(4, 4)
    def forward(self, x, noise):
        noise.requires_grad_()
        return self.l(x) * noise
with sd.machine("1x24GB"):
    m = M().cuda(); sd.heal(m)
    for i in range(3):
        n = torch.arange(4.); m(torch.ones(1, 4, device="cuda"), n).sum().backward(); print(n.grad)

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = []
# ///
