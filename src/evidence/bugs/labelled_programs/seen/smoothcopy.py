# cause: optimizer-state-on-other-device
# guilty: self.table[k] (table)
import torch
import torch.nn as nn


class Shadow:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.table = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for k, p in model.named_parameters():
            self.table[k].mul_(self.decay).add_(p, alpha=1 - self.decay)

    @torch.no_grad()
    def apply(self, model):
        for k, p in model.named_parameters():
            p.copy_(self.table[k])


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2))
    shadow = Shadow(model)
    model.to("cuda:0")
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(8, 2, 10, device="cuda:0")
        y = (x.mean((1, 2)) > 0).long()
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        shadow.update(model)
    shadow.apply(model)
    print(loss.item())


main()
