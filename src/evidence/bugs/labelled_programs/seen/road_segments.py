# cause: loss-or-label-on-other-device
# guilty: rarity
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
CLASSES = 4
images = torch.rand(16, 3, 16, 16)
gold = torch.randint(0, CLASSES, (16, 16, 16))

counts = torch.bincount(gold.flatten(), minlength=CLASSES).float()
rarity = counts.sum() / (CLASSES * counts)

net = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, CLASSES, 1),
)
gpu = torch.device("cuda:0")
net.to(gpu).train()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

for epoch in range(2):
    seen = 0.0
    for img, wanted in DataLoader(TensorDataset(images, gold), batch_size=4, shuffle=True):
        img, wanted = img.to(gpu), wanted.to(gpu)
        out = net(img)
        loss = F.cross_entropy(out, wanted, weight=rarity)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += loss.item()
    print(epoch, seen)
