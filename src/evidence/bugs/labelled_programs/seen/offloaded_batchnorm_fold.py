# cause: offload-hook-bypassed
# guilty: gamma (bn.weight, gamma.abs())
# line: 42
# repair: in the user part call fold_all(net) before dispatch_model OR in fold() read and write the weights inside accelerate's align_module_device contexts of conv and bn
"""Radio classifier for a small box: the middle section stays in host memory, norms are folded."""
import torch
from torch import nn
from accelerate import dispatch_model


class ConvNorm(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 5, stride, 2, bias=False)
        self.bn = nn.BatchNorm1d(cout)
        self.folded = False

    def forward(self, x):
        y = self.conv(x)
        return torch.relu(y if self.folded else self.bn(y))


class RadioNet(nn.Module):
    def __init__(self, classes=11):
        super().__init__()
        self.front = ConvNorm(2, 16, 2)
        self.middle = ConvNorm(16, 32, 2)
        self.back = ConvNorm(32, 32, 2)
        self.head = nn.Linear(32, classes)

    def forward(self, iq):
        h = self.back(self.middle(self.front(iq)))
        return self.head(h.mean(-1))


@torch.no_grad()
def fold(section):
    bn, conv = section.bn, section.conv
    gamma = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    conv.weight.mul_(gamma.view(-1, 1, 1))
    section.folded = True
    return gamma.abs().max().item()


def fold_all(net):
    return {name: fold(m) for name, m in net.named_children() if isinstance(m, ConvNorm)}


def box_map():
    return {"front": "cuda:0", "middle": "cpu", "back": "cuda:1", "head": "cuda:1"}


@torch.no_grad()
def classify(net, batches):
    votes = torch.zeros(11, dtype=torch.long)
    for iq in batches:
        votes += torch.bincount(net(iq.to("cuda:0")).argmax(-1).cpu(), minlength=11)
    return votes


if __name__ == "__main__":
    torch.manual_seed(0)
    net = dispatch_model(RadioNet().eval(), device_map=box_map(), main_device="cuda:0")
    print(fold_all(net))
    print(classify(net, [torch.randn(4, 2, 128) for _ in range(2)]).tolist())
