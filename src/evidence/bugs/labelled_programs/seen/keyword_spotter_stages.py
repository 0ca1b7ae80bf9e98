# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: state (self.state, h0, c0)
# line: 36
# repair: in Spotter.fresh_state take the device of the recurrent layer: dev = next(self.memory.parameters()).device (or self.memory.weight_ih_l0.device) in place of next(self.parameters()).device
import torch
import torch.nn as nn


class Spotter(nn.Module):
    """Streaming wake-word model. Front end on the first card, memory and read-out on the second."""

    def __init__(self, mels=40, width=32, words=6):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(mels, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, width, 3, padding=1)
        )
        self.memory = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.words = nn.Linear(width, words)

    def spread(self, first, second):
        self.front.to(first)
        self.memory.to(second)
        self.words.to(second)
        return self

    def fresh_state(self, batch):
        dev = next(self.parameters()).device
        size = (self.memory.num_layers, batch, self.memory.hidden_size)
        return torch.zeros(size, device=dev), torch.zeros(size, device=dev)

    def forward(self, mel, state=None):
        if state is None:
            state = self.fresh_state(mel.shape[0])
        h = self.front(mel).transpose(1, 2)
        h = h.to(self.words.weight.device)
        h, state = self.memory(h, state)
        return self.words(h), state


class MicrophoneFeed:
    def __init__(self, channels, chunk, n):
        self.channels, self.chunk, self.n = channels, chunk, n

    def __iter__(self):
        for i in range(self.n):
            t = torch.linspace(0, 1, self.chunk) + i
            yield torch.sin(t * torch.arange(1, 41)[:, None]).repeat(self.channels, 1, 1)


def smooth(scores, window):
    window.append(scores)
    del window[:-4]
    return torch.stack(window).mean(0)


@torch.no_grad()
def listen(model, feed, threshold=0.2):
    state, window = None, []
    for i, chunk in enumerate(feed):
        logits, state = model(chunk.to("cuda:0"), state)
        scores = smooth(logits.softmax(-1).mean(1), window)
        best, word = scores.max(-1)
        for channel in range(len(best)):
            if best[channel] > threshold:
                print(f"chunk {i} channel {channel}: word {int(word[channel])}")


if __name__ == "__main__":
    torch.manual_seed(2)
    spotter = Spotter().spread("cuda:0", "cuda:1").eval()
    listen(spotter, MicrophoneFeed(channels=2, chunk=30, n=5), threshold=0.1)
