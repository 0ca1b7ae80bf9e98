# cause: data-parallel-replica-device
# guilty: model (net, self.net, the module's parameters on cuda:1)
# line: 55
# repair: put the master copy on the first of device_ids: move the model to f"cuda:{device_ids[0]}" in prepare() OR pass device_ids=[1, 0] so that cuda:1 comes first (and send the inputs there)
"""Cloud mask training on both cards; the free card is chosen as the main one."""
import torch
import torch.nn as nn


class CloudNet(nn.Module):
    def __init__(self, bands=4, width=12):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(bands, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(1)


class Placement:
    def __init__(self, main, device_ids):
        self.main = torch.device(main)
        self.device_ids = device_ids

    def prepare(self, model):
        model = model.to(self.main)
        if len(self.device_ids) > 1:
            model = nn.DataParallel(model, device_ids=self.device_ids)
        return model

    def batch(self, *tensors):
        return [t.to(self.main, non_blocking=True) for t in tensors]


class Scenes(torch.utils.data.Dataset):
    def __init__(self, n=24):
        g = torch.Generator().manual_seed(1)
        self.x = torch.rand(n, 4, 16, 16, generator=g)
        self.y = (self.x.mean(1) > 0.5).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train(placement, epochs=1):
    model = placement.prepare(CloudNet())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for x, y in torch.utils.data.DataLoader(Scenes(), batch_size=8, shuffle=True):
            x, y = placement.batch(x, y)
            logits = model(x)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Placement("cuda:1", device_ids=[0, 1]))
