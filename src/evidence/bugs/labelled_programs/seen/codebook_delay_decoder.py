# cause: generation-helper-on-wrong-device
# guilty: pattern (self.pattern, pattern[..., : codes.size(-1)])
# line: 53
# repair: move the pattern to the decoder in generate(): DelayPattern(...).to(codes.device), or self.pattern.to(codes.device) in apply() OR build the pattern from the prompt after it was moved to the decoder's card OR put codec and decoder on one card
"""Music continuation: a codec on one card turns audio into four code streams, a decoder on the other continues them."""
import torch
from torch import nn
from torch.nn import functional as F

FREE = -1


class ResidualCodec(nn.Module):
    """A toy residual quantiser: frames to codes and back."""

    def __init__(self, streams=4, entries=32, frame=16):
        super().__init__()
        self.frame = frame
        self.books = nn.Parameter(torch.randn(streams, entries, frame) * 0.5)

    @torch.no_grad()
    def encode(self, audio):
        rest = audio.unfold(-1, self.frame, self.frame)
        codes = []
        for book in self.books:
            pick = torch.cdist(rest, book.expand(rest.size(0), -1, -1)).argmin(-1)
            rest = rest - book[pick]
            codes.append(pick)
        return torch.stack(codes, 1)

    @torch.no_grad()
    def decode(self, codes):
        frames = sum(book[codes[:, i]] for i, book in enumerate(self.books))
        return frames.flatten(1)


class DelayPattern:
    """Stream k runs k steps behind; FREE marks positions that the decoder may fill."""

    def __init__(self, prompt, length, blank):
        batch, streams, known = prompt.shape
        self.pattern = torch.full((batch, streams, length + streams), FREE, device=prompt.device)
        for k in range(streams):
            self.pattern[:, k, :k] = blank
            self.pattern[:, k, k : k + known] = prompt[:, k]
            self.pattern[:, k, k + length :] = blank

    def start(self):
        return self.pattern[..., :1]

    def apply(self, codes):
        pattern = self.pattern[..., : codes.size(-1)]
        return torch.where(pattern == FREE, codes, pattern)

    def undo(self, codes, length):
        return torch.stack([codes[:, k, k : k + length] for k in range(codes.size(1))], 1)


class CodeDecoder(nn.Module):
    def __init__(self, streams=4, entries=32, dim=48):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(entries + 1, dim) for _ in range(streams))
        self.core = nn.GRU(dim, dim, num_layers=2, batch_first=True)
        self.heads = nn.ModuleList(nn.Linear(dim, entries) for _ in range(streams))

    def forward(self, codes):
        h = sum(table(codes[:, k]) for k, table in enumerate(self.tables))
        h, _ = self.core(h)
        return torch.stack([head(h) for head in self.heads], 1)


class Continuer:
    def __init__(self, codec_card, decoder_card, entries=32):
        self.codec = ResidualCodec(entries=entries).to(codec_card).eval()
        self.decoder = CodeDecoder(entries=entries).to(decoder_card)
        self.blank = entries
        self.card = torch.device(decoder_card)

    def fit(self, clips, steps=10):
        codes = self.codec.encode(clips.to(self.codec.books.device)).to(self.card)
        optimizer = torch.optim.Adam(self.decoder.parameters(), 3e-3)
        for _ in range(steps):
            logits = self.decoder(codes[..., :-1])
            loss = F.cross_entropy(logits.flatten(0, 2), codes[..., 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    @torch.no_grad()
    def generate(self, audio, length=24, temperature=0.9):
        prompt = self.codec.encode(audio.to(self.codec.books.device))
        delay = DelayPattern(prompt, length, self.blank)
        codes = delay.start().to(self.card)
        while codes.size(-1) < length + prompt.size(1):
            logits = self.decoder(codes)[:, :, -1] / temperature
            pick = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1).view(len(codes), -1, 1)
            codes = delay.apply(torch.cat([codes, pick], -1))
        codes = delay.undo(codes, length)
        return self.codec.decode(codes.to(self.codec.books.device))


def main():
    torch.manual_seed(0)
    continuer = Continuer(codec_card="cuda:1", decoder_card="cuda:0")
    print("fit loss", round(continuer.fit(torch.randn(8, 16 * 30)), 3))
    wave = continuer.generate(torch.randn(2, 16 * 6))
    print("wave", tuple(wave.shape), wave.abs().mean().item())


if __name__ == "__main__":
    main()
