# cause: loss-or-label-on-other-device
# guilty: w
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(9)


class Tiles(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, 12, 12, generator=g)
        return image, (image.sum(0) > 1.5).long() + (image.sum(0) > 2.2).long()


def balance(dataset, classes):
    seen = torch.zeros(classes)
    for _, mask in dataset:
        seen += torch.bincount(mask.flatten(), minlength=classes)
    return seen.sum() / (classes * seen.clamp(min=1))


device = torch.device("cuda:0")
tiles = Tiles()
w = balance(tiles, 3)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
    nn.Conv2d(8, 3, 1),
).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

for epoch in range(2):
    running = 0.0
    for image, y in DataLoader(tiles, batch_size=4):
        image, y = image.to(device), y.to(device)
        out = net(image)
        cost = F.cross_entropy(out, y, weight=w)
        opt.zero_grad()
        cost.backward()
        opt.step()
        running += cost.item()
    print(epoch, running)
