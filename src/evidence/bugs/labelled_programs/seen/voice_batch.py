# cause: extra-input-on-wrong-device
# guilty: frames
"""Utterance-level emotion recognition from padded filterbank frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    def __init__(self, n=24, bins=20, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            t = int(torch.randint(15, 45, (1,), generator=g))
            mood = int(torch.randint(4, (1,), generator=g))
            self.items.append((torch.randn(t, bins, generator=g) + 0.2 * mood, mood))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    feats, moods = zip(*items)
    return {
        "feats": pad_sequence(feats, batch_first=True),
        "frames": torch.tensor([len(f) for f in feats]),
        "moods": torch.tensor(moods),
    }


class MoodNet(nn.Module):
    def __init__(self, bins=20, width=32, moods=4):
        super().__init__()
        self.front = nn.Conv1d(bins, width, 3, padding=1)
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.query = nn.Linear(width, 1)
        self.out = nn.Linear(width, moods)

    def forward(self, feats, frames):
        h = F.relu(self.front(feats.transpose(1, 2))).transpose(1, 2)
        steps = torch.arange(h.size(1), device=h.device)
        padded = steps[None, :] >= frames[:, None]
        h = self.layer(h, src_key_padding_mask=padded)
        score = self.query(h).squeeze(-1).masked_fill(padded, float("-inf"))
        return self.out((score.softmax(dim=1).unsqueeze(-1) * h).sum(dim=1))


def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    net = MoodNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(2):
        for batch in DataLoader(Utterances(), batch_size=8, collate_fn=collate, shuffle=True):
            feats = batch["feats"].to(device, non_blocking=True)
            moods = batch["moods"].to(device, non_blocking=True)
            loss = F.cross_entropy(net(feats, batch["frames"]), moods)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
