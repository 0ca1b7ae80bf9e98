# cause: loss-or-label-on-other-device|embedding-streams-on-different-devices
# guilty: feats["teacher"] (feats)
import torch
import torch.nn as nn
import torch.nn.functional as F


def convnet(width):
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(width, width, 3, padding=1, stride=2), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 6))


feats = {}


def grab(name):
    def hook(module, inputs, output):
        feats[name] = output
    return hook


t_dev, s_dev = "cuda:0", "cuda:1"
teacher = convnet(64).to(t_dev).eval()
student = convnet(16).to(s_dev)
adapt = nn.Conv2d(16, 64, 1).to(s_dev)
teacher[3].register_forward_hook(grab("teacher"))
student[3].register_forward_hook(grab("student"))
opt = torch.optim.SGD([*student.parameters(), *adapt.parameters()], lr=0.01, momentum=0.9)

T = 4.0
for step in range(4):
    img = torch.randn(8, 3, 32, 32)
    y = torch.randint(0, 6, (8,)).to(s_dev)
    with torch.no_grad():
        soft = (teacher(img.to(t_dev)) / T).softmax(1).to(s_dev)
    logits = student(img.to(s_dev))
    kd = F.kl_div((logits / T).log_softmax(1), soft, reduction="batchmean") * T * T
    hint = F.mse_loss(adapt(feats["student"]), feats["teacher"])
    loss = F.cross_entropy(logits, y) + 0.5 * kd + 0.1 * hint
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
