# cause: optimizer-state-on-other-device
# guilty: self.opt (exp_avg or self.opt.state)
import io
import torch
import torch.nn as nn


def build():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    return net, torch.optim.Adam(net.parameters(), lr=1e-3)


class Trainer:
    def __init__(self, device, resume=None):
        self.device = torch.device(device)
        self.epoch = 0
        self.net, self.opt = build()
        if resume is not None:
            ckpt = torch.load(resume, map_location="cpu")
            self.net.load_state_dict(ckpt["net"])
            self.opt.load_state_dict(ckpt["opt"])
            self.epoch = ckpt["epoch"]
        self.net.to(self.device)

    def one_epoch(self):
        for _ in range(3):
            img = torch.rand(4, 1, 16, 16, device=self.device)
            loss = (self.net(img) - img.flip(-1)).abs().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.epoch += 1
        return loss.item()

    def save(self):
        f = io.BytesIO()
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(), "epoch": self.epoch}, f)
        f.seek(0)
        return f


first = Trainer("cuda:1")
print("epoch", first.epoch, first.one_epoch())
checkpoint = first.save()
second = Trainer("cuda:1", resume=checkpoint)
print("epoch", second.epoch, second.one_epoch())
