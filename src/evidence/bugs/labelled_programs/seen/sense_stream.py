# cause: extra-input-on-wrong-device
# guilty: lengths
# after: pengzhendong/streaming-sensevoice#1
import torch
from torch import nn


class Sense(nn.Module):
    def __init__(self, mels=10, width=12):
        super().__init__()
        self.lift = nn.Linear(mels, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 24, batch_first=True)
        self.out = nn.Linear(width, 7)

    def forward(self, speech, lengths):
        steps = torch.arange(speech.shape[1], device=speech.device)
        padded = steps[None] >= lengths[:, None]
        h = self.layer(self.lift(speech), src_key_padding_mask=padded)
        return self.out(h.masked_fill(padded[..., None], 0.0))


model = Sense().to("cuda:0").eval()
chunks = [torch.randn(6, 10), torch.randn(9, 10)]
speech = nn.utils.rnn.pad_sequence(chunks, batch_first=True).to("cuda:0")
lengths = torch.tensor([len(c) for c in chunks])
with torch.no_grad():
    print(model(speech, lengths).argmax(-1))
