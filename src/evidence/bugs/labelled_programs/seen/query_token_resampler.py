# cause: tensor-created-on-wrong-device|device-map-incomplete-or-wrong|block-split-across-devices
# guilty: self.queries (queries)
# line: 66
# repair: wrap the learned queries in a module of their own that is placed with the resampler (e.g. move self.queries into Resampler), as the root's own parameters follow main_device (card 0) OR queries = self.queries.to(context.device) in AudioCaptioner.forward OR pass main_device=1 to dispatch_model
"""Audio captioner with learned query tokens; its parts are put on two cards with a map."""
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn


class AudioTrunk(nn.Module):
    def __init__(self, mels, width):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(width, width, 5, stride=2, padding=2)

    def forward(self, mel):
        return F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)


class ContextGate(nn.Module):
    """One vector per clip that shifts the queries."""

    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.lin(x.mean(1, keepdim=True)))


class Resampler(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, queries, x):
        mixed, _ = self.attn(queries, x, x, need_weights=False)
        return self.norm(queries + mixed)


class Captioner(nn.Module):
    def __init__(self, width, vocab):
        super().__init__()
        self.cell = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, x):
        return self.out(self.cell(x)[0])


class AudioCaptioner(nn.Module):
    def __init__(self, mels=24, width=32, heads=4, queries=6, vocab=50):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, queries, width) * 0.02)
        self.trunk = AudioTrunk(mels, width)
        self.gate = ContextGate(width)
        self.resampler = Resampler(width, heads)
        self.captioner = Captioner(width, vocab)

    def forward(self, mel):
        x = self.trunk(mel)
        context = self.gate(x)
        queries = self.queries + context
        return self.captioner(self.resampler(queries, x))


def two_card_map():
    # the trunk has the long sequences, so that the rest gets the second card
    return {"trunk": 0, "gate": 1, "resampler": 1, "captioner": 1, "queries": 1}


def greedy(model, mel, words):
    with torch.no_grad():
        tokens = model(mel).argmax(-1)
    return [" ".join(words[t] for t in row) for row in tokens.tolist()]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = dispatch_model(AudioCaptioner().eval(), device_map=two_card_map(), main_device=0)
    vocabulary = [f"w{i}" for i in range(50)]
    for line in greedy(model, torch.randn(2, 24, 80, device="cuda:0"), vocabulary):
        print(line)
