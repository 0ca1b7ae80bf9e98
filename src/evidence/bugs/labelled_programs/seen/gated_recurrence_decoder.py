# cause: cache-or-beam-state-on-wrong-device
# guilty: self.window (block.window, window)
# line: 27
# repair: in HybridDecoder.setup_cache allocate each block's window and state on the card of that block (device=card from zip(self.blocks, self.cards)) OR move self.window and self.state to x.device in GatedBlock.forward
"""Hybrid decoder with short convolutions and a gated linear recurrence; its state is set up once per request."""
import torch
import torch.nn as nn


class GatedBlock(nn.Module):
    def __init__(self, dim, width=4):
        super().__init__()
        self.width = width
        self.norm = nn.RMSNorm(dim)
        self.gate = nn.Linear(dim, 2 * dim)
        self.conv = nn.Conv1d(dim, dim, width, groups=dim)
        self.out = nn.Linear(dim, dim)
        self.window = self.state = None

    def setup_cache(self, batch, device):
        self.window = torch.zeros(batch, self.out.in_features, self.width - 1, device=device)
        self.state = torch.zeros(batch, self.out.in_features, device=device)

    def forward(self, x):
        h = self.norm(x)
        decay, inp = torch.sigmoid(self.gate(h)).chunk(2, -1)
        padded = torch.cat([self.window, h.transpose(1, 2)], -1)
        self.window = padded[..., 1 - self.width:]
        local = self.conv(padded).transpose(1, 2)
        outputs = []
        for t in range(x.shape[1]):
            self.state = decay[:, t] * self.state + inp[:, t] * local[:, t]
            outputs.append(self.state)
        return x + self.out(torch.stack(outputs, 1))


class MlpBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def setup_cache(self, batch, device):
        pass

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class HybridDecoder(nn.Module):
    def __init__(self, cards, vocab=110, dim=32, depth=8):
        super().__init__()
        self.cards = [torch.device(cards[i * len(cards) // depth]) for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim).to(self.cards[0])
        self.blocks = nn.ModuleList((MlpBlock if i % 2 else GatedBlock)(dim).to(c) for i, c in enumerate(self.cards))
        self.norm = nn.RMSNorm(dim).to(self.cards[-1])
        self.head = nn.Linear(dim, vocab, bias=False).to(self.cards[-1])

    def setup_cache(self, batch, device):
        for block in self.blocks:
            block.setup_cache(batch, device)

    def forward(self, ids):
        x = self.embed(ids)
        for block, card in zip(self.blocks, self.cards):
            x = block(x.to(card))
        return self.head(self.norm(x))[:, -1].to(ids.device)

    @torch.inference_mode()
    def generate(self, ids, steps, temperature=1.0):
        self.setup_cache(ids.shape[0], ids.device)
        logits = self(ids)
        made = []
        for _ in range(steps):
            token = torch.multinomial((logits / temperature).softmax(-1), 1)
            made.append(token)
            logits = self(token)
        return torch.cat(made, 1)


def read_prompts(lines, device):
    width = max(map(len, lines))
    rows = [[ord(c) % 110 for c in line.rjust(width)] for line in lines]
    return torch.tensor(rows, device=device)


def main():
    torch.manual_seed(0)
    model = HybridDecoder(["cuda:0", "cuda:1"]).eval()
    for lines in (["the mill", "a long way home"], ["north wind"]):
        ids = read_prompts(lines, model.embed.weight.device)
        for line, row in zip(lines, model.generate(ids, steps=5, temperature=0.9).tolist()):
            print(line, row)


if __name__ == "__main__":
    main()
