import torch, samedevice as sd
m=torch.nn.Linear(4,4)
with sd.machine("1x24GB"):
    m=torch.nn.Linear(4,4).cuda(); m.register_forward_hook(lambda mod,a,o:o*torch.ones(4)); sd.heal(m)
    try: m(torch.ones(1,4,device="cuda"))
    except RuntimeError as e: print(repr(e), hasattr(e,"finding"), getattr(e,"__notes__",None))

# /// expect
# must = "healed, or an error with its finding"
# command = "python"
# exit = 0
# never = ["False"]
# ///
