"""timm's own loop in short: its model, loss, optimizer, schedule and averaged weights."""

import timm
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch

model = timm.create_model("resnet18", num_classes=3).cuda()
averaged = timm.utils.ModelEmaV3(model)
optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
schedule = timm.scheduler.CosineLRScheduler(optimizer, t_initial=2)
loss_of = timm.loss.LabelSmoothingCrossEntropy().cuda()
for epoch in range(2):
    loss = loss_of(model(torch.randn(4, 3, 64, 64, device="cuda")), torch.tensor([0, 1, 2, 0], device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    averaged.update(model, step=epoch)
    schedule.step(epoch + 1)
print("done")
