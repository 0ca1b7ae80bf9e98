import os
import tempfile

import torch
from pytorch_optimizer import Prodigy


def train(model, optimizer):
    for _ in range(2):
        loss = model(torch.randn(4, 8, device="cuda:0")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


model = torch.nn.Linear(8, 4).to("cuda:0")
optimizer = Prodigy(model.parameters())
train(model, optimizer)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    checkpoint = torch.load(path, map_location="cpu", weights_only=False)

model = torch.nn.Linear(8, 4).to("cuda:0")
model.load_state_dict(checkpoint["model"])
optimizer = Prodigy(model.parameters())
optimizer.load_state_dict(checkpoint["optimizer"])
train(model, optimizer)
print("SCENARIO OK")
