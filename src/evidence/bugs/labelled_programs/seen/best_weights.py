# cause: optimizer-state-on-other-device|module-left-on-other-device|weights-moved-away-by-manager
# guilty: best (self.best[name] or kept)
# after: lucidrains/DALLE2-pytorch#87
import torch
from torch import nn


class Soup:
    """The mean of the weights of the best epochs, kept on the host to save memory."""

    def __init__(self, model):
        self.best = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        self.count = 1

    @torch.no_grad()
    def add(self, model):
        self.count += 1
        for name, value in model.state_dict().items():
            best = self.best[name]
            self.best[name] = best + (value - best) / self.count


net = nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.Linear(9, 2)).to("cuda:0")
soup = Soup(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(7, 5, device="cuda:0")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    soup.add(net)
