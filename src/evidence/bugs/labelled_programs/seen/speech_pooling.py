# cause: extra-input-on-wrong-device
# guilty: frame_counts
import torch
from torch import nn


class Speaker(nn.Module):
    """Conv front end and masked mean pooling over valid frames."""

    def __init__(self, mels=20, hidden=32, speakers=10):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(mels, hidden, 5, padding=2), nn.ReLU(), nn.Conv1d(hidden, hidden, 3, padding=1), nn.ReLU()
        )
        self.cls = nn.Linear(hidden, speakers)

    def forward(self, feats, frame_counts):
        h = self.front(feats)
        steps = torch.arange(h.size(-1), device=h.device)
        valid = steps[None, :] < frame_counts[:, None]
        h = h * valid[:, None, :]
        return self.cls(h.sum(-1) / valid.sum(-1, keepdim=True))


def collate(utterances):
    lens = torch.tensor([u.size(1) for u in utterances])
    out = torch.zeros(len(utterances), utterances[0].size(0), int(lens.max()))
    for i, u in enumerate(utterances):
        out[i, :, : u.size(1)] = u
    return {"feats": out, "frame_counts": lens, "speaker": torch.randint(0, 10, (len(utterances),))}


def main():
    torch.manual_seed(3)
    dev = torch.device("cuda:0")
    model = Speaker().to(dev)
    opt = torch.optim.Adam(model.parameters())
    for _ in range(3):
        batch = collate([torch.randn(20, n) for n in (40, 33, 27)])
        feats = batch["feats"].to(dev, non_blocking=True)
        target = batch["speaker"].to(dev, non_blocking=True)
        logits = model(feats, batch["frame_counts"])
        loss = nn.functional.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
