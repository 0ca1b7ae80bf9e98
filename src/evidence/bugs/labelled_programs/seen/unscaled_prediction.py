# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: mean (self.mean or std or self.std or scaler.mean or scaler.std)
# after: Nixtla/neuralforecast#711
import torch
from torch import nn


class Scaler:
    def fit(self, values):
        self.mean, self.std = values.mean(0), values.std(0)
        return self

    def transform(self, values):
        return (values - self.mean) / self.std

    def inverse(self, values):
        return values * self.std + self.mean


raw = torch.rand(60, 4) * 50
scaler = Scaler().fit(raw)
ready = scaler.transform(raw).to("cuda:1")
net = nn.Linear(4, 4).to("cuda:1")
optimizer = torch.optim.Adam(net.parameters())
for _ in range(2):
    loss = (net(ready[:-1]) - ready[1:]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(scaler.inverse(net(ready[-1:])))
