# cause: checkpoint-map-location
# guilty: self.prototypes
"""Few-shot classification: prototypes are computed once on GPU 0, then served on GPU 1."""
import os
import tempfile

import torch
from torch import nn


def embedder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(20))


@torch.no_grad()
def fit(path, device="cuda:0", ways=5, shots=3):
    net = embedder().to(device)
    support = torch.rand(ways * shots, 1, 20, 20, device=device)
    protos = net(support).view(ways, shots, -1).mean(1)
    torch.save({"net": net.state_dict(), "prototypes": protos}, path)


class Server:
    def __init__(self, path, device):
        ckpt = torch.load(path, weights_only=True)
        self.net = embedder().to(device).eval()
        self.net(torch.zeros(1, 1, 20, 20, device=device))
        self.net.load_state_dict(ckpt["net"])
        self.prototypes = ckpt["prototypes"]
        self.device = device

    @torch.no_grad()
    def classify(self, images):
        z = self.net(images.to(self.device))
        dist = torch.cdist(z, self.prototypes)
        return dist.argmin(-1).tolist()


def main():
    path = os.path.join(tempfile.mkdtemp(), "protonet.pt")
    fit(path)
    server = Server(path, torch.device("cuda:1"))
    print(server.classify(torch.rand(7, 1, 20, 20)))


main()
