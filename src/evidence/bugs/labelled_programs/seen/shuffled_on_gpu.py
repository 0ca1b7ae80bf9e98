# cause: generator-or-default-device
# guilty: ?
# after: pyro-ppl/pyro#3264
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda:0")


class Effects(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 1))

    def fit(self, x, y, batch=8, epochs=2):
        optimizer = torch.optim.Adam(self.parameters())
        loader = DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True, generator=torch.Generator(device="cpu"))
        for _ in range(epochs):
            for one, wanted in loader:
                loss = (self.net(one)[:, 0] - wanted).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return loss.item()


x = torch.randn(32, 4)
print(Effects().fit(x, x.sum(-1)))
