# cause: embedding-streams-on-different-devices
# guilty: mask (frames.mask, batch["frame_mask"])
# line: 64
# repair: in MeetingTranscriber.speech_features move the mask to each stream before indexing, semantic[mask.to(semantic.device)], and bring the second stream to the first (.to(acoustic.device)) OR place semantic encoder and connector on the card of the acoustic stream
"""Meeting transcription: an acoustic and a semantic tokenizer feed one language model, spread over two cards."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Placement:
    acoustic: str = "cuda:0"
    semantic: str = "cuda:1"
    text: str = "cuda:0"
    layers: tuple = ("cuda:0", "cuda:0", "cuda:1", "cuda:1")


class ConvTokenizer(nn.Module):
    def __init__(self, out_dim, strides):
        super().__init__()
        dims = [1] + [16] * (len(strides) - 1) + [out_dim]
        self.convs = nn.ModuleList(nn.Conv1d(a, b, 2 * s, s, padding=s // 2)
                                   for a, b, s in zip(dims, dims[1:], strides))

    def forward(self, wave):
        x = wave[:, None].to(self.convs[0].weight.device)
        for conv in self.convs:
            x = nn.functional.gelu(conv(x))
        return x.transpose(1, 2)


class Connector(nn.Module):
    def __init__(self, in_dim, dim):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(in_dim, dim), nn.LayerNorm(dim), nn.Linear(dim, dim)

    def forward(self, x):
        return self.fc2(self.norm(self.fc1(x)))


class MeetingTranscriber(nn.Module):
    audio_token = 3

    def __init__(self, place, vocab=90, dim=32):
        super().__init__()
        self.place = place
        self.acoustic_tokenizer = ConvTokenizer(12, (4, 4)).to(place.acoustic)
        self.acoustic_connector = Connector(12, dim).to(place.acoustic)
        self.semantic_tokenizer = ConvTokenizer(20, (4, 4)).to(place.semantic)
        self.semantic_connector = Connector(20, dim).to(place.semantic)
        self.embed = nn.Embedding(vocab, dim).to(place.text)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True).to(d)
                                    for d in place.layers)
        self.head = nn.Linear(dim, vocab).to(place.layers[-1])

    def speech_features(self, wave, mask):
        acoustic = self.acoustic_connector(self.acoustic_tokenizer(wave))
        semantic = self.semantic_connector(self.semantic_tokenizer(wave))
        width = min(acoustic.shape[1], mask.shape[1])
        acoustic, semantic, mask = acoustic[:, :width], semantic[:, :width], mask[:, :width]
        voiced = acoustic[mask]
        return voiced + semantic[mask].to(voiced.device)

    def forward(self, ids, wave=None, frame_mask=None):
        x = self.embed(ids)
        if wave is not None:
            speech = self.speech_features(wave, frame_mask)
            spots = (ids == self.audio_token).unsqueeze(-1).expand_as(x)
            x = x.masked_scatter(spots, speech.to(x.dtype))
        for layer, card in zip(self.layers, self.place.layers):
            x = layer(x.to(card))
        return self.head(x)


def pack(lengths, card, hop=16):
    longest = max(lengths)
    wave = torch.zeros(len(lengths), longest)
    mask = torch.zeros(len(lengths), longest // hop, dtype=torch.bool)
    rows = []
    for i, n in enumerate(lengths):
        wave[i, :n] = torch.randn(n)
        mask[i, :n // hop] = True
        rows.append([1] + [3] * (n // hop) + [0] * ((longest - n) // hop) + [2])
    return {"ids": torch.tensor(rows).to(card), "wave": wave.to(card), "frame_mask": mask.to(card)}


@torch.no_grad()
def main():
    torch.manual_seed(0)
    place = Placement()
    model = MeetingTranscriber(place).eval()
    warm = model(torch.tensor([[1, 5, 2]], device=place.text))
    print("warm-up", tuple(warm.shape))
    for lengths in ([160, 96], [240, 240, 64]):
        batch = pack(lengths, place.text)
        logits = model(**batch)
        print(lengths, logits.argmax(-1)[:, -1].tolist())


if __name__ == "__main__":
    main()
