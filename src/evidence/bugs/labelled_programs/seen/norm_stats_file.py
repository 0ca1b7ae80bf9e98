# cause: checkpoint-map-location
# guilty: stats["mean"]
import os
import tempfile

import torch
import torch.nn as nn

TRAIN_DEV, SERVE_DEV = "cuda:0", "cuda:1"


def standardise(x, stats):
    return (x - stats["mean"]) / (stats["std"] + 1e-6)


def fit(x, y, steps=30):
    x, y = x.to(TRAIN_DEV), y.to(TRAIN_DEV)
    stats = {"mean": x.mean(0), "std": x.std(0)}
    net = nn.Linear(x.size(1), 1).to(TRAIN_DEV)
    opt = torch.optim.LBFGS(net.parameters(), max_iter=steps)

    def closure():
        opt.zero_grad()
        loss = (net(standardise(x, stats)).squeeze(1) - y).pow(2).mean()
        loss.backward()
        return loss

    opt.step(closure)
    return net, stats


class Service:
    def __init__(self, folder):
        weights = torch.load(os.path.join(folder, "net.pt"), map_location=SERVE_DEV)
        self.net = nn.Linear(weights["weight"].size(1), 1).to(SERVE_DEV)
        self.net.load_state_dict(weights)
        self.stats = torch.load(os.path.join(folder, "stats.pt"))
        self.net.eval()

    @torch.inference_mode()
    def predict(self, rows):
        x = torch.tensor(rows, dtype=torch.float32, device=SERVE_DEV)
        return self.net(standardise(x, self.stats)).squeeze(1).tolist()


def main():
    torch.manual_seed(0)
    x = torch.randn(50, 4) * 3 + 1
    y = x @ torch.tensor([1.0, -2.0, 0.5, 0.0]) + 0.3
    with tempfile.TemporaryDirectory() as folder:
        net, stats = fit(x, y)
        torch.save(net.state_dict(), os.path.join(folder, "net.pt"))
        torch.save(stats, os.path.join(folder, "stats.pt"))
        service = Service(folder)
        print(service.predict([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]))


main()
