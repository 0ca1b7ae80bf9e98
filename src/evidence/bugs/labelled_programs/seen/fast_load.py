# cause: module-left-on-other-device
# guilty: self.stem.weight (self.stem or state or net)
import io
import torch
import torch.nn as nn


class Classifier(nn.Module):
    def __init__(self, dim=32, classes=7):
        super().__init__()
        self.stem = nn.Linear(dim, 64)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        h = self.stem(x)
        return self.head(torch.relu(self.norm(h)))


def pretrained_file():
    torch.manual_seed(3)
    f = io.BytesIO()
    torch.save({"epoch": 12, "state_dict": Classifier().state_dict()}, f)
    f.seek(0)
    return f


def load(path, device):
    net = Classifier().to(device)
    ckpt = torch.load(path, map_location="cpu", weights_only=True)
    state = {k.removeprefix("module."): v for k, v in ckpt["state_dict"].items()}
    missing = net.load_state_dict(state, strict=False, assign=True)
    assert not missing.missing_keys
    return net.eval(), ckpt["epoch"]


device = "cuda:1"
net, epoch = load(pretrained_file(), device)
print("loaded weights of epoch", epoch)
right = 0
with torch.inference_mode():
    for _ in range(4):
        x = torch.randn(16, 32).to(device)
        y = torch.randint(0, 7, (16,)).to(device)
        right += (net(x).argmax(1) == y).sum().item()
print("acc", right / 64)
