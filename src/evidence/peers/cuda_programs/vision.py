"""Trains a torchvision model, and calls an operator of torchvision's own library."""

import torch
import torchvision

model = torchvision.models.resnet18(num_classes=2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    with torch.autocast("cuda"):
        loss = torch.nn.functional.cross_entropy(
            model(torch.randn(4, 3, 64, 64, device="cuda")), torch.tensor([0, 1, 0, 1]).cuda()
        )
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
kept = torchvision.ops.nms(
    torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]]), torch.tensor([0.9, 0.8, 0.7]), 0.5
)
assert kept.tolist() == [0, 2]
print("done")
