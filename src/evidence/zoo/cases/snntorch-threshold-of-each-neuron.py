import snntorch as snn
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.current = torch.nn.Linear(6, 4)
        self.neurons = snn.Leaky(beta=0.9, threshold=torch.linspace(0.5, 1.5, 4))

    def forward(self, x, membrane):
        return self.neurons(self.current(x), membrane)


network = Network().to("cuda:0")
membrane = torch.zeros(2, 4, device="cuda:0")
for step in range(3):
    spikes, membrane = network(torch.randn(2, 6, device="cuda:0"), membrane)
print(spikes.shape, membrane.shape)
print("SCENARIO OK")
