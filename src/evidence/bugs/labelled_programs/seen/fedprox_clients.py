# cause: optimizer-state-on-other-device|extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: g (anchor)
"""FedProx simulation: clients take turns on the GPUs, the server model stays on the first one."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class MLP(nn.Module):
    def __init__(self, dim=16, hidden=32, classes=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.net(x)


def client_data(seed, n=64, dim=16, classes=4):
    """Non-iid: each client sees mostly one class."""
    g = torch.Generator().manual_seed(seed)
    y = torch.where(torch.rand(n, generator=g) < 0.7, torch.tensor(seed % classes), torch.randint(0, classes, (n,), generator=g))
    x = torch.randn(n, dim, generator=g) + 2 * F.one_hot(y, dim).float()
    return TensorDataset(x, y)


def proximal_term(parameters, anchor):
    total = 0.0
    for p, g in zip(parameters, anchor):
        total = total + (p - g).pow(2).sum()
    return total


class Client:
    def __init__(self, cid, device, mu=0.01):
        self.cid = cid
        self.device = torch.device(device)
        self.loader = DataLoader(client_data(cid), batch_size=16, shuffle=True)
        self.mu = mu

    def fit(self, server_model, epochs=1):
        anchor = [p.detach().clone() for p in server_model.parameters()]
        local = copy.deepcopy(server_model).to(self.device)
        optimizer = torch.optim.SGD(local.parameters(), lr=0.05)
        local.train()
        for _ in range(epochs):
            for x, y in self.loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = F.cross_entropy(local(x), y)
                loss = loss + 0.5 * self.mu * proximal_term(local.parameters(), anchor)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        weights = {k: v.detach().cpu() for k, v in local.state_dict().items()}
        return weights, len(self.loader.dataset), loss.item()


class Server:
    def __init__(self, device="cuda:0"):
        self.model = MLP().to(device)

    def aggregate(self, results):
        total = sum(n for _, n, _ in results)
        merged = {k: sum(w[k] * (n / total) for w, n, _ in results) for k in results[0][0]}
        self.model.load_state_dict(merged)


def main():
    torch.manual_seed(0)
    gpus = ["cuda:0", "cuda:1"]
    server = Server(gpus[0])
    clients = [Client(i, gpus[i % len(gpus)]) for i in range(4)]
    for rnd in range(2):
        results = [client.fit(server.model) for client in clients]
        server.aggregate(results)
        print(f"round {rnd}: mean client loss {sum(r[2] for r in results) / len(results):.3f}")


if __name__ == "__main__":
    main()
