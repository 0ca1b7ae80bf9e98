import torch
from pytorch_optimizer import SM3

model = torch.nn.Linear(6, 3).to("cuda:0")
optimizer = SM3(model.parameters(), lr=0.1)
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(
        model(torch.randn(5, 6, device="cuda:0")), torch.randint(3, (5,), device="cuda:0")
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("SCENARIO OK")
