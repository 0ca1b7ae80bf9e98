# cause: extra-input-on-wrong-device
# guilty: lengths (feature_lengths, batch.sizes lengths)
# line: 44
# repair: let SpeechBatch.to move the entries of self.sizes too (self.sizes = {k: v.to(device) ...}) OR in padding_mask use lengths.to(device)
"""Speech recogniser with CTC: a batch container with features, targets and sizes."""
import torch
import torch.nn.functional as F
from torch import nn


class SpeechBatch:
    """Feature and target tensors in .tensors, their lengths in .sizes."""

    def __init__(self, tensors, sizes):
        self.tensors = tensors
        self.sizes = sizes

    def __getattr__(self, name):
        for group in ("tensors", "sizes"):
            values = self.__dict__.get(group, {})
            if name in values:
                return values[name]
        raise AttributeError(name)

    def to(self, device):
        self.tensors = {k: v.to(device, non_blocking=True) for k, v in self.tensors.items()}
        return self

    def pin(self):
        return self


def collate(samples):
    features = [f for f, _ in samples]
    targets = [t for _, t in samples]
    return SpeechBatch(
        {"features": nn.utils.rnn.pad_sequence(features, batch_first=True),
         "targets": nn.utils.rnn.pad_sequence(targets, batch_first=True)},
        {"feature_lengths": torch.tensor([len(f) for f in features]),
         "target_lengths": torch.tensor([len(t) for t in targets])})


def padding_mask(lengths, width, device):
    return torch.arange(width, device=device)[None, :] >= lengths[:, None]


class Subsampler(nn.Module):
    def __init__(self, mels, width):
        super().__init__()
        self.conv = nn.Conv1d(mels, width, 3, stride=2, padding=1)

    def forward(self, x, lengths):
        return F.gelu(self.conv(x.transpose(1, 2))).transpose(1, 2), (lengths + 1) // 2


class Recogniser(nn.Module):
    def __init__(self, mels=20, width=32, tokens=30, layers=2):
        super().__init__()
        self.front = Subsampler(mels, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, tokens)

    def forward(self, features, lengths):
        x, lengths = self.front(features, lengths)
        mask = padding_mask(lengths, x.shape[1], x.device)
        x = self.encoder(x, src_key_padding_mask=mask)
        return self.out(x).log_softmax(-1), lengths


class SyntheticSpeech(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        frames = 40 + 3 * i
        return torch.randn(frames, 20, generator=g), torch.randint(1, 30, (5 + i % 3,), generator=g)


def train(device):
    torch.manual_seed(0)
    model = Recogniser().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(SyntheticSpeech(), batch_size=4, collate_fn=collate)
    ctc = nn.CTCLoss(zero_infinity=True)
    for batch in loader:
        batch = batch.to(device)
        log_probs, lengths = model(batch.features, batch.feature_lengths)
        loss = ctc(log_probs.transpose(0, 1), batch.targets, lengths, batch.target_lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    train("cuda:0")
