# cause: extra-input-on-wrong-device|input-not-on-embedding-device
# guilty: speaker (speakers)
# line: 40
# repair: send the speaker ids along with the hidden states in Synthesiser.forward: self.decoder(h.to(self.decoder_card), speakers.to(self.decoder_card)) OR look them up with speaker.to(self.voices.weight.device) OR place the voice table on the first card and move its output
"""Multi-speaker speech synthesis: text side on one card, frame decoder on the other."""
import torch
from torch import nn
from torch.nn import functional as F


class TextSide(nn.Module):
    def __init__(self, symbols, dim):
        super().__init__()
        self.embed = nn.Embedding(symbols, dim, padding_idx=0)
        self.conv = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2) for _ in range(2))
        self.duration = nn.Linear(dim, 1)

    def forward(self, text):
        h = self.embed(text)
        for conv in self.conv:
            h = h + torch.relu(conv(h.transpose(1, 2))).transpose(1, 2)
        return h, F.softplus(self.duration(h)).squeeze(-1)


def stretch(h, frames):
    """Repeats each symbol by its number of frames and pads to the longest utterance."""
    rows = [row.repeat_interleave(count, dim=0) for row, count in zip(h, frames)]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class FrameDecoder(nn.Module):
    def __init__(self, dim, mels, n_speakers):
        super().__init__()
        self.voices = nn.Embedding(n_speakers, dim) if n_speakers > 1 else None
        self.core = nn.GRU(dim, dim, num_layers=2, batch_first=True)
        self.out = nn.Linear(dim, mels)

    def forward(self, h, speaker=None):
        if self.voices is not None and speaker is not None:
            h = h + self.voices(speaker)[:, None, :]
        return self.out(self.core(h)[0])


class Synthesiser(nn.Module):
    def __init__(self, symbols=40, dim=32, mels=20, n_speakers=1, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.text_card, self.decoder_card = (torch.device(c) for c in cards)
        self.text_side = TextSide(symbols, dim).to(self.text_card)
        self.decoder = FrameDecoder(dim, mels, n_speakers).to(self.decoder_card)

    def forward(self, text, frames=None, speakers=None):
        h, spread = self.text_side(text)
        if frames is None:
            frames = spread.round().long().clamp(1, 6)
        h = stretch(h, frames)
        mel = self.decoder(h.to(self.decoder_card), speakers)
        return mel, spread


def to_device(batch, device):
    return {name: value.to(device, non_blocking=True) for name, value in batch.items()}


def make_batch(count, generator, n_speakers):
    text = torch.randint(1, 40, (count, 9), generator=generator)
    frames = torch.randint(1, 5, (count, 9), generator=generator)
    batch = {"text": text, "frames": frames, "mel": torch.randn(count, int(frames.sum(1).max()), 20, generator=generator)}
    if n_speakers > 1:
        batch["speakers"] = torch.randint(n_speakers, (count,), generator=generator)
    return batch


def train(model, n_speakers, steps=6):
    generator = torch.Generator().manual_seed(n_speakers)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        batch = to_device(make_batch(8, generator, n_speakers), model.text_card)
        mel, spread = model(batch["text"], batch["frames"], batch.get("speakers"))
        loss = F.l1_loss(mel, batch["mel"].to(mel.device))
        loss = loss + 0.1 * F.mse_loss(spread, batch["frames"].float()).to(mel.device)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    single = Synthesiser(n_speakers=1)
    print("one voice", round(train(single, 1), 3))
    many = Synthesiser(n_speakers=12)
    print("twelve voices", round(train(many, 12), 3))
    text = torch.randint(1, 40, (2, 7), device=many.text_card)
    with torch.no_grad():
        mel, _ = many(text, speakers=torch.tensor([3, 9], device=many.text_card))
    print("mel", tuple(mel.shape))


if __name__ == "__main__":
    main()
