import torch
from pytorch_optimizer import LDAMLoss

counts = [40, 8, 2]
weights = 1 / torch.tensor(counts, dtype=torch.float)
network = torch.nn.Linear(6, 3).to("cuda:0")
objective = LDAMLoss(num_class_list=counts, weight=weights / weights.sum() * 3).to("cuda:0")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
loss = objective(network(torch.randn(9, 6, device="cuda:0")), torch.arange(9, device="cuda:0") % 3)
loss.backward()
optimizer.step()
print(loss)
print("SCENARIO OK")
