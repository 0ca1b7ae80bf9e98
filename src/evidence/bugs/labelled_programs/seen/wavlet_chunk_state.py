# cause: cache-or-beam-state-on-wrong-device
# guilty: left (state[index], self.state[index])
# line: 55
# repair: in StreamState.__init__ make each layer's context on the device of that layer (device=layer.conv.weight.device) OR in StreamingEncoder.step use left = state.context[index].to(x.device)
"""Streaming speech recogniser: causal convolutions that keep their left context."""
import torch
import torch.nn as nn


class CausalLayer(nn.Module):
    def __init__(self, dim, width=5):
        super().__init__()
        self.context = width - 1
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, width, groups=dim)
        self.point = nn.Linear(dim, dim)

    def forward(self, x):
        return self.point(torch.relu(self.conv(x)).transpose(1, 2))


class StreamState:
    """Left context of every layer for one batch of streams."""

    def __init__(self, encoder, batch):
        weight = next(encoder.parameters())
        self.context = [
            weight.new_zeros(batch, encoder.dim, layer.context) for layer in encoder.layers
        ]
        self.frames = 0


class StreamingEncoder(nn.Module):
    def __init__(self, features=20, dim=32, depth=6, tokens=28):
        super().__init__()
        self.dim = dim
        self.front = nn.Linear(features, dim)
        self.layers = nn.ModuleList(CausalLayer(dim) for _ in range(depth))
        self.ctc = nn.Linear(dim, tokens)

    def spread(self, cards):
        per = -(-len(self.layers) // len(cards))
        self.front.to(cards[0])
        for i, layer in enumerate(self.layers):
            layer.to(cards[i // per])
        self.ctc.to(cards[-1])
        return self

    @torch.no_grad()
    def step(self, chunk, state):
        x = self.front(chunk.to(self.front.weight.device))
        for index, layer in enumerate(self.layers):
            x = x.to(layer.point.weight.device)
            left = state.context[index]
            wide = torch.cat([left, layer.norm(x).transpose(1, 2)], dim=2)
            state.context[index] = wide[:, :, -layer.context:]
            x = x + layer(wide)
        state.frames += chunk.shape[1]
        return self.ctc(x).log_softmax(-1)


class CtcCollapse:
    def __init__(self, blank=0):
        self.blank, self.last = blank, None

    def __call__(self, log_probs):
        out = []
        for token in log_probs.argmax(-1).tolist():
            if token != self.last and token != self.blank:
                out.append(token)
            self.last = token
        return out


class Recogniser:
    def __init__(self, encoder, chunk=8):
        self.encoder, self.chunk = encoder.eval(), chunk

    def transcribe(self, features):
        state = StreamState(self.encoder, 1)
        collapse = CtcCollapse()
        text = []
        for start in range(0, features.shape[0], self.chunk):
            piece = features[None, start:start + self.chunk]
            text += collapse(self.encoder.step(piece, state)[0])
        return text, state.frames


if __name__ == "__main__":
    torch.manual_seed(0)
    encoder = StreamingEncoder().spread([torch.device("cuda:0"), torch.device("cuda:1")])
    recogniser = Recogniser(encoder)
    for utterance in (torch.randn(40, 20), torch.randn(24, 20)):
        tokens, frames = recogniser.transcribe(utterance)
        print(frames, tokens)
