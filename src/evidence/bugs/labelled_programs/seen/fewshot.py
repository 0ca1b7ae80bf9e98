# cause: checkpoint-map-location
# guilty: centres (pack["centres"])
import io
import torch
import torch.nn as nn


class ProtoNet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, dim))

    def forward(self, x):
        return self.f(x)


def support_phase(device):
    net = ProtoNet().to(device)
    x = torch.randn(3, 5, 10, device=device)
    with torch.no_grad():
        centres = net(x.flatten(0, 1)).view(3, 5, -1).mean(1)
    blob = io.BytesIO()
    torch.save({"net": net.state_dict(), "centres": centres}, blob)
    return blob.getvalue()


def query_phase(blob, device):
    pack = torch.load(io.BytesIO(blob))
    net = ProtoNet().to(device)
    net.load_state_dict(pack["net"])
    centres = pack["centres"]
    q = torch.randn(6, 10, device=device)
    with torch.no_grad():
        dist = torch.cdist(net(q), centres)
    return (-dist).softmax(-1).argmax(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = support_phase("cuda:1")
    print(query_phase(data, "cuda:0").tolist())
