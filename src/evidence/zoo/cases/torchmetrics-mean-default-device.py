import torch
from torchmetrics import MeanMetric

torch.set_default_device("cuda:0")
network = torch.nn.Linear(5, 3)
average = MeanMetric()
for _ in range(3):
    logits, target = network(torch.randn(4, 5)), torch.randint(3, (4,))
    losses = torch.nn.functional.cross_entropy(logits, target, reduction="none").detach()
    average.update(losses, weight=0.5)
print(average.compute())
print("SCENARIO OK")
