# cause: device-map-incomplete-or-wrong
# guilty: self.speaker
"""Text-to-speech acoustic model, spread over two cards by an explicit plan."""
import torch
from torch import nn

PLAN = {
    "text": "cuda:0",
    "encoder": "cuda:0",
    "duration": "cuda:0",
    "decoder": "cuda:1",
    "to_mel": "cuda:1",
}


class Acoustic(nn.Module):
    def __init__(self, phones=40, speakers=6, dim=24, mel=20):
        super().__init__()
        self.text = nn.Embedding(phones, dim)
        self.speaker = nn.Embedding(speakers, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.duration = nn.Linear(dim, 1)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.to_mel = nn.Linear(dim, mel)

    def forward(self, phones, speaker):
        x, _ = self.encoder(self.text(phones))
        x = x + self.speaker(speaker)[:, None]
        frames = self.duration(x).squeeze(-1).exp().round().clamp(1, 4).long()
        x = torch.nn.utils.rnn.pad_sequence(
            [row.repeat_interleave(n, dim=0) for row, n in zip(x, frames)], batch_first=True)
        x = x.to(self.to_mel.weight.device)
        y, _ = self.decoder(x)
        return self.to_mel(y)


def apply_plan(model, plan):
    for name, device in plan.items():
        model.get_submodule(name).to(device)
    return model


def entry_device(plan):
    return next(iter(plan.values()))


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = apply_plan(Acoustic(), PLAN).eval()
    start = entry_device(PLAN)
    for length in (5, 9):
        phones = torch.randint(0, 40, (2, length)).to(start)
        speaker = torch.tensor([1, 4]).to(start)
        mel = model(phones, speaker)
        print(mel.cpu().numpy().shape)


if __name__ == "__main__":
    main()
