# cause: cache-or-beam-state-on-wrong-device
# guilty: state (states, hx)
# line: 46
# repair: in Recogniser.fresh_state make the state of each layer on that layer's device (layer.weight_hh_l0.device) instead of on the device of the first parameter
"""Streaming recogniser: LSTM layers over two cards, a session keeps state between chunks."""
import torch
import torch.nn as nn


class FrontEnd(nn.Module):
    def __init__(self, bins=20, stack=2):
        super().__init__()
        self.stack = stack
        self.register_buffer("mean", torch.zeros(bins * stack))
        self.proj = nn.Linear(bins * stack, 32)

    def forward(self, frames):
        n, t, f = frames.shape
        frames = frames[:, :t - t % self.stack].reshape(n, -1, f * self.stack)
        return self.proj(frames - self.mean)


class Recogniser(nn.Module):
    def __init__(self, vocab=30, dim=32, depth=4):
        super().__init__()
        self.front = FrontEnd()
        self.layers = nn.ModuleList(nn.LSTM(dim, dim, batch_first=True) for _ in range(depth))
        self.ctc = nn.Linear(dim, vocab)

    def split(self, devices):
        per = len(self.layers) // len(devices)
        self.front.to(devices[0])
        for i, layer in enumerate(self.layers):
            layer.to(devices[min(i // per, len(devices) - 1)])
        self.ctc.to(devices[-1])
        return self

    def fresh_state(self, batch):
        first = next(self.parameters())
        zeros = lambda layer: first.new_zeros(1, batch, layer.hidden_size)
        return [(zeros(layer), zeros(layer)) for layer in self.layers]

    def forward(self, frames, states):
        x, after = self.front(frames), []
        for layer, state in zip(self.layers, states):
            x, state = layer(x.to(layer.weight_hh_l0.device), state)
            after.append(state)
        return self.ctc(x), after


class Session:
    def __init__(self, model, alphabet):
        self.model, self.alphabet = model, alphabet
        self.state, self.last, self.text = model.fresh_state(1), 0, ""

    @torch.no_grad()
    def feed(self, chunk):
        device = self.model.front.proj.weight.device
        logits, self.state = self.model(chunk.unsqueeze(0).to(device), self.state)
        for token in logits[0].argmax(-1).tolist():
            if token != self.last and token:
                self.text += self.alphabet[token - 1]
            self.last = token
        return self.text


class Captions:
    def __init__(self, model):
        self.model, self.sessions = model, {}

    def on_audio(self, user, chunk):
        if user not in self.sessions:
            self.sessions[user] = Session(self.model, "abcdefghijklmnopqrstuvwxyz .'")
        return self.sessions[user].feed(chunk)


if __name__ == "__main__":
    torch.manual_seed(0)
    captions = Captions(Recogniser().split(["cuda:0", "cuda:1"]).eval())
    for k in range(4):
        print(k, captions.on_audio(("ann", "bo")[k % 2], torch.randn(12, 20)))
