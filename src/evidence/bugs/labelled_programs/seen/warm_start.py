# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: self.optimizer.state (exp_avg)
import torch
import torch.nn as nn
import torch.nn.functional as F


class AutoEncoder(nn.Module):
    def __init__(self, genes=60, latent=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(genes, 32), nn.ELU(), nn.Linear(32, latent))
        self.dec = nn.Sequential(nn.Linear(latent, 32), nn.ELU(), nn.Linear(32, genes))

    def forward(self, x):
        return self.dec(self.enc(x))


class Fitter:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.log = []

    @property
    def device(self):
        return next(self.model.parameters()).device

    def epoch(self, data, batch=16):
        for chunk in data.split(batch):
            x = torch.log1p(chunk.to(self.device))
            loss = F.mse_loss(self.model(x), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.sched.step()
        self.log.append(loss.item())

    def to(self, device):
        self.model.to(device)
        return self


def counts(cells, genes=60, types=4):
    profile = torch.rand(types, genes) * 5
    kind = torch.randint(0, types, (cells,))
    return torch.poisson(profile[kind])


def main():
    torch.manual_seed(9)
    fitter = Fitter(AutoEncoder())
    small, large = counts(32), counts(128)
    fitter.epoch(small)          # quick sanity pass
    if fitter.log[-1] > 10:
        raise SystemExit("diverged")
    fitter.to("cuda:0")
    for _ in range(3):
        fitter.epoch(large)
    print([round(v, 4) for v in fitter.log])


if __name__ == "__main__":
    main()
