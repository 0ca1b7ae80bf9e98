# cause: checkpoint-map-location|metric-state-device
# guilty: self.best (tracker.best, score)
# line: 35
# repair: load the checkpoint with torch.load(path, map_location=device) in resume() OR keep the best score as a plain number (score.item() / float(state["best"])) in PlateauTracker OR move it in load_state_dict: state["best"].to(device)
"""Bird call tagging: a first run on one card, a second run that goes on from its checkpoint on the other."""
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class CallTagger(nn.Module):
    def __init__(self, n_mels=24, n_species=7):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_mels, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 48, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(48, n_species)

    def forward(self, mel):
        return self.head(self.conv(mel).mean(-1))


class PlateauTracker:
    """Stops the run when the validation score has not risen for `patience` epochs."""

    def __init__(self, patience=3, min_delta=1e-4):
        self.patience, self.min_delta = patience, min_delta
        self.best = torch.tensor(float("-inf"))
        self.stale = 0

    def update(self, score):
        if score > self.best + self.min_delta:
            self.best = score.detach().clone()
            self.stale = 0
            return True
        self.stale += 1
        return False

    @property
    def exhausted(self):
        return self.stale >= self.patience

    def state_dict(self):
        return {"best": self.best, "stale": self.stale}

    def load_state_dict(self, state):
        self.best, self.stale = state["best"], state["stale"]


def make_batches(count, seed):
    g = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(16, 24, 40, generator=g), (torch.rand(16, 7, generator=g) > 0.7).float()) for _ in range(count)
    ]


def train_epoch(model, optimizer, batches, device):
    model.train()
    for mel, tags in batches:
        loss = F.binary_cross_entropy_with_logits(model(mel.to(device)), tags.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    hits = torch.zeros((), device=device)
    total = 0
    for mel, tags in batches:
        guess = model(mel.to(device)).sigmoid() > 0.5
        hits += (guess == tags.to(device).bool()).float().sum()
        total += tags.numel()
    return hits / total


def save(path, epoch, model, optimizer, tracker):
    torch.save(
        {"epoch": epoch, "model": model.state_dict(), "optim": optimizer.state_dict(), "tracker": tracker.state_dict()},
        path,
    )


def resume(path, model, optimizer, tracker):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optim"])
    tracker.load_state_dict(state["tracker"])
    return state["epoch"] + 1


def run(device, epochs, path):
    model = CallTagger().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tracker = PlateauTracker()
    start = resume(path, model, optimizer, tracker) if os.path.exists(path) else 0
    train_set, val_set = make_batches(4, seed=1), make_batches(2, seed=2)
    for epoch in range(start, start + epochs):
        train_epoch(model, optimizer, train_set, device)
        score = validate(model, val_set, device)
        if tracker.update(score):
            save(path, epoch, model, optimizer, tracker)
        print(f"epoch {epoch} score {score.item():.3f} best {tracker.best.item():.3f}")
        if tracker.exhausted:
            break


def main():
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "tagger.pt")
    run("cuda:0", epochs=2, path=path)
    run("cuda:1", epochs=3, path=path)


if __name__ == "__main__":
    main()
