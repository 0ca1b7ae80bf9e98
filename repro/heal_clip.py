import torch, samedevice as sd
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
def go(dev, other, heal):
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(2,2,bias=False), torch.nn.Linear(2,2,bias=False)).to(dev)
    e = AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.5)); 
    e.module[1].to(other)
    if heal:
        with sd.heal():
            for i in range(3):
                with torch.no_grad(): [p.add_(1) for p in m.parameters()]
                e.update_parameters(m)
    else:
        for i in range(3):
            with torch.no_grad(): [p.add_(1) for p in m.parameters()]
            e.update_parameters(m)
    return [p.detach().cpu() for p in e.module.parameters()]
t = go("cpu","cpu",False)
with sd.machine("2x24GB"):
    try:
        g = go("cuda:0","cpu",True); print([torch.equal(a,b) for a,b in zip(t,g)])
        g = go("cuda:0","cuda:1",True); print([torch.equal(a,b) for a,b in zip(t,g)])
    except Exception as x: print(type(x), x, getattr(x,'__notes__',None))

# /// expect
# must = "the right number or a refusal"
# command = "python"
# prints = ["[True, True]\n[True, True]"]
# ///
