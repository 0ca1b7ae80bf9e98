# cause: loss-or-label-on-other-device
# guilty: target
# after: unit8co/darts#492
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Forecaster:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), device
        self.criterion = nn.L1Loss()

    def fit(self, train, valid, epochs=1):
        optimizer = torch.optim.Adam(self.model.parameters())
        for _ in range(epochs):
            for past, target in train:
                past, target = past.to(self.device), target.to(self.device)
                loss = self.criterion(self.model(past), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(self.validate(valid))

    @torch.no_grad()
    def validate(self, valid):
        total = 0.0
        for past, target in valid:
            forecast = self.model(past.to(self.device))
            total += self.criterion(forecast, target).item()
        return total / len(valid)


data = TensorDataset(torch.randn(24, 10), torch.randn(24, 3))
loader = DataLoader(data, batch_size=8)
Forecaster(nn.Linear(10, 3), torch.device("cuda:0")).fit(loader, loader)
