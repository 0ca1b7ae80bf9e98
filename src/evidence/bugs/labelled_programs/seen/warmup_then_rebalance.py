# cause: optimizer-state-on-other-device
# guilty: self.optimizer (optimizer, optimizer.state)
# line: 68
# repair: in Session.rebalance move the moments with the weights, `for p, s in self.optimizer.state.items(): s[k] = v.to(p.device)` for exp_avg and exp_avg_sq, OR build a new optimizer after the move
"""Warm up with short clips on one card, then use two cards for the long ones."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TemporalBlock(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=dilation, dilation=dilation)
        self.norm = nn.GroupNorm(4, dim)

    def forward(self, x):
        return x + F.gelu(self.norm(self.conv(x)))


class ClipModel(nn.Module):
    def __init__(self, feats, dim, depth, classes):
        super().__init__()
        self.inlet = nn.Conv1d(feats, dim, 1)
        self.blocks = nn.ModuleList(TemporalBlock(dim, 2 ** i) for i in range(depth))
        self.outlet = nn.Linear(dim, classes)

    def forward(self, clips):
        x = self.inlet(clips.to(self.inlet.weight.device))
        for block in self.blocks:
            x = block(x.to(block.conv.weight.device))
        return self.outlet(x.mean(-1).to(self.outlet.weight.device))


class Curriculum:
    def __init__(self, lengths, batches, classes, feats):
        self.lengths, self.batches, self.classes, self.feats = lengths, batches, classes, feats

    def __iter__(self):
        for length in self.lengths:
            yield length, [self._batch(length) for _ in range(self.batches)]

    def _batch(self, length):
        labels = torch.randint(0, self.classes, (8,))
        tone = torch.sin(torch.arange(length) * (labels[:, None] + 1) * 0.3)
        return tone.unsqueeze(1) + 0.2 * torch.randn(8, self.feats, length), labels


class Session:
    def __init__(self, model, cards, split_above=64):
        self.cards, self.split_above = cards, split_above
        self.model = model.to(cards[0])
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.split = False

    def rebalance(self):
        half = len(self.model.blocks) // 2
        for block in self.model.blocks[half:]:
            block.to(self.cards[1])
        self.model.outlet.to(self.cards[1])
        self.split = True

    def train_batch(self, clips, labels):
        logits = self.model(clips)
        loss = F.cross_entropy(logits, labels.to(logits.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self, curriculum):
        for length, batches in curriculum:
            if length > self.split_above and not self.split:
                self.rebalance()
            losses = [self.train_batch(clips, labels) for clips, labels in batches]
            print("length", length, "loss", sum(losses) / len(losses))


if __name__ == "__main__":
    torch.manual_seed(0)
    session = Session(ClipModel(6, 16, 4, 3), ["cuda:0", "cuda:1"])
    session.run(Curriculum([32, 64, 128], batches=3, classes=3, feats=6))
