# cause: loss-or-label-on-other-device
# guilty: F.softmax(t / T, -1) (t or t_logits)
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(*dims):
    layers = []
    for a, b in zip(dims[:-1], dims[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


teacher_dev, student_dev = torch.device("cuda:1"), torch.device("cuda:0")
teacher = mlp(40, 256, 256, 10).to(teacher_dev).eval()
student = mlp(40, 32, 10).to(student_dev)
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
T, alpha = 4.0, 0.7


def kd(s, t):
    return F.kl_div(F.log_softmax(s / T, -1), F.softmax(t / T, -1), reduction="batchmean") * T * T


history = []
for step in range(6):
    x = torch.randn(64, 40)
    y = torch.randint(0, 10, (64,))
    with torch.no_grad():
        t_logits = teacher(x.to(teacher_dev))
    s_logits = student(x.to(student_dev))
    ce = F.cross_entropy(s_logits, y.to(student_dev))
    loss = alpha * kd(s_logits, t_logits) + (1 - alpha) * ce
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    history.append(loss.detach().cpu())
print(torch.stack(history))
