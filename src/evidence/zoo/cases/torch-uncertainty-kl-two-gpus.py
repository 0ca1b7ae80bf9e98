import torch
from torch_uncertainty.layers import BayesLinear
from torch_uncertainty.losses import KLDiv


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = BayesLinear(6, 8).to("cuda:0")
        self.second = BayesLinear(8, 3).to("cuda:1")

    def forward(self, batch):
        return self.second(self.first(batch).relu().to("cuda:1"))


network = Network()
divergence = KLDiv(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    logits = network(torch.randn(4, 6, device="cuda:0"))
    loss = torch.nn.functional.cross_entropy(logits, torch.randint(3, (4,), device="cuda:1"))
    loss = loss + 0.01 * divergence().sum()
    loss.backward()
    optimizer.step()
print(loss.item())
print("SCENARIO OK")
