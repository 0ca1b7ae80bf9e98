import torch
from brevitas.core.function_wrapper.stochastic_round import StochasticRoundSte


class Rounded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)
        self.round = StochasticRoundSte(seed=0)

    def forward(self, inputs):
        return self.round(self.linear(inputs) * 16) / 16


network = Rounded().to("cuda:1")
loss = network(torch.randn(3, 6, device="cuda:1")).square().mean()
loss.backward()
print(loss, network.linear.weight.grad.norm())
print("SCENARIO OK")
