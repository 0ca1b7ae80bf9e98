# cause: extra-input-on-wrong-device
# guilty: repeats (durations)
"""Duration-based text-to-mel model, trained on random toy utterances."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


def collate(items):
    return {
        "phones": pad_sequence([i["phones"] for i in items], batch_first=True),
        "durations": pad_sequence([i["durations"] for i in items], batch_first=True),
        "mels": pad_sequence([i["mel"] for i in items], batch_first=True),
        "names": [i["name"] for i in items],
    }


def utterance(i, bins=8):
    n = 5 + i % 3
    durations = torch.randint(1, 5, (n,))
    return {
        "name": f"utt{i:03d}",
        "phones": torch.randint(1, 30, (n,)),
        "durations": durations,
        "mel": torch.randn(int(durations.sum()), bins),
    }


class ToyTTS(nn.Module):
    def __init__(self, phones=30, dim=24, bins=8):
        super().__init__()
        self.embed = nn.Embedding(phones, dim, padding_idx=0)
        self.encoder = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)
        self.duration = nn.Linear(dim, 1)
        self.decoder = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, bins))

    def stretch(self, states, durations):
        rows = []
        for state, repeats in zip(states, durations):
            rows.append(state.repeat_interleave(repeats, dim=0))
        return pad_sequence(rows, batch_first=True)

    def forward(self, phones, durations):
        states, _ = self.encoder(self.embed(phones))
        log_durations = self.duration(states).squeeze(-1)
        return self.decoder(self.stretch(states, durations)), log_durations


class Session:
    def __init__(self, device="cuda"):
        self.device = device
        self.model = ToyTTS().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)

    def step(self, batch):
        phones = batch["phones"].to(self.device)
        mels = batch["mels"].to(self.device)
        durations = batch["durations"]
        out, log_durations = self.model(phones, durations)
        wanted = torch.log1p(batch["durations"].float()).to(self.device)
        loss = (out - mels).abs().mean() + (log_durations - wanted).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(8)
    data = [utterance(i) for i in range(8)]
    session = Session()
    for epoch in range(2):
        for start in range(0, len(data), 4):
            print(epoch, round(session.step(collate(data[start : start + 4])), 4))
