# cause: generator-or-default-device|checkpoint-map-location|tensor-created-on-wrong-device
# guilty: state["rng"] (rng, state, ckpt["rng"])
# line: 40
# repair: load the checkpoint on the host (torch.load(path, map_location="cpu"); load_state_dict moves the rest) OR torch.set_rng_state(state["rng"].cpu())
import os
import tempfile

import torch
import torch.nn as nn

DEVICE = torch.device("cuda:0")


class NoisyAutoencoder(nn.Module):
    def __init__(self, dim=30, code=6):
        super().__init__()
        self.enc = nn.Linear(dim, code)
        self.dec = nn.Linear(code, dim)

    def forward(self, x, noise):
        return self.dec(torch.tanh(self.enc(x + noise)))


def save(path, model, opt, epoch):
    torch.save(
        {
            "model": model.state_dict(),
            "opt": opt.state_dict(),
            "epoch": epoch,
            "rng": torch.get_rng_state(),
        },
        path,
    )


def load(path, model, opt):
    state = torch.load(path, map_location=DEVICE)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["opt"])
    torch.set_rng_state(state["rng"])
    return state["epoch"] + 1


def batches(n, dim=30):
    # noise is drawn on the host so that runs can be compared bit by bit
    for _ in range(n):
        x = torch.randn(16, dim)
        noise = 0.1 * torch.randn(16, dim)
        yield x.to(DEVICE), noise.to(DEVICE)


def train_epoch(model, opt):
    running = 0.0
    for x, noise in batches(5):
        loss = (model(x, noise) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    return running / 5


def new_session():
    torch.manual_seed(123)
    model = NoisyAutoencoder().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, opt


def run(path, until):
    model, opt = new_session()
    start = load(path, model, opt) if os.path.exists(path) else 0
    for epoch in range(start, until):
        print("epoch", epoch, train_epoch(model, opt))
        save(path, model, opt, epoch)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ckpt = os.path.join(folder, "last.pt")
        run(ckpt, until=2)
        print("-- resumed --")
        run(ckpt, until=4)
