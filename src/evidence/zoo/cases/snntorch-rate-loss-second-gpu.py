import snntorch.functional as SF
import torch

weights = torch.nn.Linear(8, 3).to("cuda:1")
outputs = weights(torch.rand(5, 4, 8, device="cuda:1"))
targets = torch.randint(3, (4,), device="cuda:1")
loss = SF.ce_rate_loss()(outputs, targets)
loss.backward()
print(loss)
print("SCENARIO OK")
