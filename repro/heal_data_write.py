# silent wrong number: a write through .data (no version bump) to a lent copy is lost
import torch, samedevice as sd
class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(4, 4)
    def forward(self, x, buf):
        y = self.l(x) * buf
        buf.data.add_(1)          # EMA/queue/cache style write
        return y
with sd.machine("1x24GB"), torch.no_grad():
    m = M().to("cuda:0"); sd.heal(m); buf = torch.zeros(4)
    for i in range(5): m(torch.ones(1, 4, device="cuda:0"), buf); print(i + 1, buf.tolist())

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = ["5 [5.0, 5.0, 5.0, 5.0]"]
# ///
