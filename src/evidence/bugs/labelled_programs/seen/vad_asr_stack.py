# cause: module-left-on-other-device|hard-coded-device
# guilty: self.conv.weight (self.conv, self.vad, vad)
# line: 20
# repair: in load_pipeline give the speech detector the full device, load_vad(f"{device}:{index}") (the index is dropped at present, so it sits on the current card) OR torch.cuda.set_device(index) first OR move the waveform to the detector's card in SpeechPipeline.segments
"""Long recordings: a small detector finds speech, the recogniser reads the pieces.  Options as in the old tool."""
import argparse

import torch
import torch.nn as nn


class SpeechDetector(nn.Module):
    def __init__(self, hop=80):
        super().__init__()
        self.conv = nn.Conv1d(1, 24, 2 * hop, hop, hop // 2)
        self.rnn = nn.LSTM(24, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, wave):
        x = torch.relu(self.conv(wave[:, None])).transpose(1, 2)
        return torch.sigmoid(self.out(self.rnn(x)[0])).squeeze(-1)


class Recogniser(nn.Module):
    def __init__(self, hop=160, dim=32, vocab=50):
        super().__init__()
        self.conv = nn.Conv1d(1, dim, 2 * hop, hop, hop // 2)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, wave):
        return self.out(self.layer(torch.relu(self.conv(wave[:, None])).transpose(1, 2)))

    def transcribe(self, wave):
        best = self(wave)[0].argmax(-1)
        return [t for t in torch.unique_consecutive(best).tolist() if t]


def load_vad(device, seed=0):
    torch.manual_seed(seed)
    return SpeechDetector().to(device).eval()


def load_asr(device, index, seed=1):
    torch.manual_seed(seed)
    return Recogniser().to(f"{device}:{index}").eval()


class SpeechPipeline:
    def __init__(self, vad, asr, onset=0.5, hop=80, longest=16000):
        self.vad, self.asr, self.onset, self.hop, self.longest = vad, asr, onset, hop, longest
        self.device = next(asr.parameters()).device

    def segments(self, wave):
        probs = self.vad(wave[None])[0]
        active = (probs > min(self.onset, probs.median().item())).tolist()
        start = None
        for i, speaking in enumerate(active + [False]):
            if speaking and start is None:
                start = i
            elif start is not None and (not speaking or (i - start) * self.hop >= self.longest):
                yield start * self.hop, i * self.hop
                start = None

    def __call__(self, wave):
        wave = wave.to(self.device)
        result = []
        for start, end in self.segments(wave):
            if end - start >= 400:
                result.append({"start": start / 8000, "end": end / 8000,
                               "tokens": self.asr.transcribe(wave[None, start:end])})
        return result


def load_pipeline(device, index):
    return SpeechPipeline(load_vad(device), load_asr(device, index))


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--device_index", type=int, default=1)
    args = parser.parse_args()
    pipeline = load_pipeline(args.device, args.device_index)
    torch.manual_seed(2)
    for minutes in (1, 2):
        envelope = torch.sin(torch.arange(minutes * 16000) / 2500).clamp(min=0.02)
        wave = envelope * torch.randn(minutes * 16000)
        found = pipeline(wave)
        print("recording", minutes, "pieces", len(found), "first", found[0]["tokens"][:4] if found else None)


if __name__ == "__main__":
    main()
