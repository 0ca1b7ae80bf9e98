# cause: extra-input-on-wrong-device|checkpoint-map-location
# guilty: spk (spk_emb or self.voices[speaker])
"""Multi-voice TTS demo: voices come from a file with one embedding for each speaker."""
import pathlib
import tempfile

import torch
from torch import nn


class AcousticModel(nn.Module):
    def __init__(self, n_phones=50, d=64, n_mels=20):
        super().__init__()
        self.phones = nn.Embedding(n_phones, d)
        self.spk_proj = nn.Linear(16, d)
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.mel = nn.Linear(d, n_mels)

    def forward(self, phones, spk_emb):
        h = self.phones(phones) + self.spk_proj(spk_emb)[:, None]
        h, _ = self.enc(h)
        return self.mel(h)


class Synthesizer:
    def __init__(self, voice_file, device="cuda"):
        self.device = torch.device(device)
        self.model = AcousticModel().to(self.device).eval()
        self.voices = torch.load(voice_file, map_location="cpu")

    def g2p(self, text):
        return torch.tensor([[ord(c) % 50 for c in text]]).to(self.device)

    @torch.no_grad()
    def say(self, text, speaker):
        spk = self.voices[speaker].unsqueeze(0)
        return self.model(self.g2p(text), spk)


def write_voices(folder):
    path = pathlib.Path(folder) / "voices.pt"
    torch.save({name: torch.randn(16) for name in ("anna", "ben", "chloe")}, path)
    return path


with tempfile.TemporaryDirectory() as folder:
    tts = Synthesizer(write_voices(folder))
    for who in ("anna", "chloe"):
        print(who, tts.say("good morning", who).shape)
