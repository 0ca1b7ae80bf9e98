import torch
from schedulefree import AdamWScheduleFree

network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("cuda:0")
optimizer = AdamWScheduleFree(network.parameters(), lr=0.01)
optimizer.train()
data, target = torch.randn(12, 6), torch.randint(2, (12,))
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(network(data.to("cuda:0")), target.to("cuda:0"))
    loss.backward()
    optimizer.step()
network.to("cuda:1")
optimizer.eval()
with torch.no_grad():
    print(network(data.to("cuda:1")).argmax(1))
print("SCENARIO OK")
