# silent wrong number: the argument is also an attribute (or a view of one); a write to the lent copy is not seen there until the call ends
import torch, samedevice as sd
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(4, 4, bias=False); torch.nn.init.ones_(self.l.weight); self.cache = torch.zeros(2, 4)
    def forward(self, x, cache):
        y = self.l(x) @ cache.T
        cache.add_(1)
        return y + self.cache.sum().to(y.device)
def run(device, heal):
    m = M().to(device)
    if heal: sd.heal(m)
    return [m(torch.ones(1, 4, device=device), m.cache).tolist() for _ in range(4)]
with torch.no_grad():
    print("true  ", run("cpu", False))
    with sd.machine("1x24GB"): print("healed", run("cuda:0", True))

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = []
# ///
