# silent wrong number: a module returns its buffer; after learning a moved copy is returned, later in-place writes are lost
import torch, samedevice as sd
class Table(torch.nn.Module):
    def __init__(self): super().__init__(); self.buf = torch.zeros(4)       # forgotten on the host
    def forward(self): return self.buf
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(4, 4); self.table = Table()
    def forward(self, x, update=False):
        t = self.table(); y = self.l(x) * t
        if x.shape[0] > 1: t.add_(1)             # same kind of call, another branch
        return y
with sd.machine("1x24GB"), torch.no_grad():
    m = M().cuda(); sd.heal(m)
    for i in range(3): m(torch.ones(1, 4, device="cuda"))
    for i in range(3): m(torch.ones(2, 4, device="cuda")); print("after", i + 1, "updates:", m.table.buf.tolist())

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = ["after 3 updates: [3.0, 3.0, 3.0, 3.0]"]
# ///
