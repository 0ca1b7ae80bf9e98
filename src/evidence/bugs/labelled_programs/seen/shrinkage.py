# cause: loss-or-label-on-other-device|block-split-across-devices
# guilty: norms (norms[1])
import torch
import torch.nn as nn


class TwoStage(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(9, 16).to("cuda:0")
        self.dec = nn.Linear(16, 9).to("cuda:1")

    def forward(self, x):
        return self.dec(self.enc(x.to("cuda:0")).relu().to("cuda:1"))


def penalty(model, strength):
    norms = [p.pow(2).sum() for n, p in model.named_parameters() if n.endswith("weight")]
    return strength * torch.stack(norms).sum()


def epoch(model, opt, x):
    target = x.to("cuda:1")
    loss = nn.functional.mse_loss(model(x), target)
    loss = loss + penalty(model, 1e-3).to(loss.device)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = TwoStage()
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(3):
        value = epoch(net, opt, torch.randn(10, 9))
    print(value)
