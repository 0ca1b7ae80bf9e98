# cause: module-left-on-other-device
import copy, torch
from torch import nn
student = nn.Linear(8, 4)
teacher = copy.deepcopy(student)
student = student.to("cuda:0")
x = torch.randn(3, 8, device="cuda:0")
with torch.no_grad():
    target = teacher(x)
loss = nn.functional.mse_loss(student(x), target)
