import torch
from torchgeo.models import CROMA

model = CROMA(modalities=["optical"], encoder_dim=32, encoder_depth=2, num_heads=16, image_size=16)
model = model.to("cuda:0")
head = torch.nn.Linear(32, 2).to("cuda:0")
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
images = torch.randn(2, 12, 16, 16, device="cuda:0")
logits = head(model(x_optical=images)["optical_GAP"])
loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1], device="cuda:0"))
loss.backward()
optimizer.step()
print(loss)
print("SCENARIO OK")
