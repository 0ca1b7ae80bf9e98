# silent wrong number at the first call: a foreach that was refused at its 2nd tensor is made again as a whole
import torch, samedevice as sd
with sd.machine("1x24GB"), torch.no_grad():
    ema = [torch.zeros(2, device="cuda:0"), torch.zeros(2, device="cuda:0")]
    new = [torch.ones(2, device="cuda:0"), torch.ones(2)]        # the second one is on the host
    with sd.heal():
        torch._foreach_add_(ema, new)
    print(ema[0].tolist(), ema[1].tolist(), "expected [1, 1] [1, 1]")

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = ["[1.0, 1.0] [1.0, 1.0] expected"]
# ///
