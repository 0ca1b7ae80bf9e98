# cause: tensor-created-on-wrong-device
# guilty: labels
import torch
from torch import nn


def offset_labels(w):
    """Number of the relative offset of each pair of cells in a w x w window."""
    ij = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    d = ij[:, :, None] - ij[:, None, :] + w - 1
    return d[0] * (2 * w - 1) + d[1]


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, w):
        super().__init__()
        self.w, self.heads = w, heads
        self.table = nn.Parameter(torch.randn((2 * w - 1) ** 2, heads) * 0.02)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        labels = offset_labels(self.w)
        bias = torch.index_select(self.table, 0, labels.view(-1)).view(t, t, -1)
        att = q @ k.mT * (d // self.heads) ** -0.5 + bias.permute(2, 0, 1)
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))


class WindowNet(nn.Module):
    def __init__(self, w=4, dim=16, classes=3):
        super().__init__()
        self.w = w
        self.stem = nn.Conv2d(1, dim, 2, 2)
        self.att = WindowAttention(dim, 2, w)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        f = self.stem(img)
        b, c, h, _ = f.shape
        g = h // self.w
        win = f.view(b, c, g, self.w, g, self.w).permute(0, 2, 4, 3, 5, 1).reshape(-1, self.w ** 2, c)
        out = win + self.att(win)
        return self.head(out.view(b, -1, c).mean(1))


net = WindowNet().to("cuda:0")
images, labels = torch.rand(4, 1, 16, 16), torch.tensor([0, 2, 1, 1])
loss = nn.functional.cross_entropy(net(images.to("cuda:0")), labels.to("cuda:0"))
loss.backward()
print(loss.item())
