# silent wrong number: module keeps the argument; the caller updates its own tensor; module sees an old copy
import torch, samedevice as sd
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(4, 4); self.kept = None
    def forward(self, x, buf):
        self.kept = buf
        return self.l(x) * buf
with sd.machine("1x24GB"), torch.no_grad():
    m = M().to("cuda:0"); sd.heal(m); buf = torch.zeros(4)
    for i in range(5):
        m(torch.ones(1, 4, device="cuda:0"), buf); buf += 1
        print("caller", buf.tolist(), "module", m.kept.tolist())

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = ["caller [5.0, 5.0, 5.0, 5.0] module [5.0, 5.0, 5.0, 5.0]"]
# ///
