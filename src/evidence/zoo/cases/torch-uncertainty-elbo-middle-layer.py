import torch
from torch_uncertainty.layers import BayesLinear
from torch_uncertainty.losses import ELBOLoss


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 8).to("cuda:0")
        self.middle = BayesLinear(8, 8).to("cuda:1")
        self.last = torch.nn.Linear(8, 3).to("cuda:0")

    def forward(self, batch):
        hidden = self.first(batch).relu().to("cuda:1")
        return self.last(self.middle(hidden).relu().to("cuda:0"))


network = Network()
criterion = ELBOLoss(network, torch.nn.CrossEntropyLoss(), kl_weight=0.01, num_samples=2)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    loss = criterion(torch.randn(4, 6, device="cuda:0"), torch.randint(3, (4,), device="cuda:0"))
    loss.sum().backward()
    optimizer.step()
print(loss.item())
print("SCENARIO OK")
