# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: lengths (batch["meta"]["frames"])
# line: 45
# repair: make send_to recurse into dicts, `isinstance(v, dict): send_to(v, device)`, so that batch["meta"]["frames"] is moved with the rest OR `lengths.to(steps.device)` in frame_mask
"""CTC speech recognition with a subsampling encoder and a collator that nests its lengths."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    def __init__(self, n, mels=20, vocab=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            frames = int(torch.randint(60, 120, (1,), generator=g))
            words = int(torch.randint(4, 9, (1,), generator=g))
            self.rows.append((torch.randn(frames, mels, generator=g), torch.randint(1, vocab, (words,), generator=g)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Collator:
    def __call__(self, rows):
        feats, texts = zip(*rows)
        return {
            "feats": pad_sequence(list(feats), batch_first=True),
            "tokens": pad_sequence(list(texts), batch_first=True),
            "meta": {"frames": torch.tensor([len(f) for f in feats]),
                     "words": torch.tensor([len(t) for t in texts])},
        }


def send_to(batch, device):
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}


def frame_mask(steps, lengths):
    return steps.unsqueeze(0) >= lengths.unsqueeze(1)


class Encoder(nn.Module):
    def __init__(self, mels, dim, vocab):
        super().__init__()
        self.subsample = nn.Conv1d(mels, dim, 3, stride=2, padding=1)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, feats, lengths):
        x = F.relu(self.subsample(feats.transpose(1, 2))).transpose(1, 2)
        lengths = (lengths + 1) // 2
        steps = torch.arange(x.shape[1], device=x.device)
        x = self.layer(x, src_key_padding_mask=frame_mask(steps, lengths))
        return self.out(x).log_softmax(-1), lengths


class Recipe:
    def __init__(self, device):
        self.device = device
        self.model = Encoder(20, 32, 12).to(device)
        self.loader = DataLoader(Utterances(16), batch_size=4, collate_fn=Collator())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def epoch(self):
        for batch in self.loader:
            batch = send_to(batch, self.device)
            logp, lengths = self.model(batch["feats"], batch["meta"]["frames"])
            loss = F.ctc_loss(logp.transpose(0, 1), batch["tokens"], lengths, batch["meta"]["words"],
                              zero_infinity=True)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    recipe = Recipe(torch.device("cuda:0"))
    for epoch in range(2):
        print(epoch, recipe.epoch())
