# cause: quantized-state-on-other-device|tensor-created-on-wrong-device
# guilty: self.scale
import torch
import torch.nn as nn


class Int8Linear(nn.Module):
    def __init__(self, lin):
        super().__init__()
        w = lin.weight.detach()
        self.scale = w.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("qweight", (w / self.scale).round().to(torch.int8))
        self.bias = nn.Parameter(lin.bias.detach().clone(), requires_grad=False)

    def forward(self, x):
        w = self.qweight.float() * self.scale
        return nn.functional.linear(x, w, self.bias)


def quantize(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Int8Linear(child))
        else:
            quantize(child)
    return model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 64)
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.out = nn.Linear(64, 5)

    def forward(self, x):
        return self.out(self.body(self.inp(x)))


torch.manual_seed(0)
ref = Net().eval()
x = torch.randn(32, 16)
with torch.no_grad():
    want = ref(x)
    net = quantize(ref).to("cuda:1")
    got = net(x.to("cuda:1")).cpu()
print("max error", (want - got).abs().max().item())
