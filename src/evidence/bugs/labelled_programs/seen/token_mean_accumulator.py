# cause: loss-or-label-on-other-device
# guilty: n_tokens (loss_sum, total)
# line: 60
# repair: move the count to the loss: loss_sum / n_tokens.to(loss_sum.device) in objective() OR count into a Python number (.item() / int(...)) or a 0-dim CPU tensor in count_targets()
"""Gradient accumulation with a token-weighted mean, for a language model that spans two cards."""
import torch
from torch import nn
from torch.nn import functional as F
from transformers import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

IGNORE = -100


class TwoCardLM(nn.Module):
    def __init__(self, config, cards):
        super().__init__()
        self.cards = [torch.device(c) for c in cards]
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd).to(cards[0])
        self.places = nn.Embedding(config.n_positions, config.n_embd).to(cards[0])
        half = config.n_layer // 2
        self.lower = nn.ModuleList(GPT2Block(config, i) for i in range(half)).to(cards[0])
        self.upper = nn.ModuleList(GPT2Block(config, i) for i in range(half, config.n_layer)).to(cards[1])
        self.norm = nn.LayerNorm(config.n_embd).to(cards[1])
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False).to(cards[1])

    @staticmethod
    def run(block, h):
        out = block(h)
        return out[0] if isinstance(out, tuple) else out

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        h = self.tokens(ids) + self.places(places)
        for block in self.lower:
            h = self.run(block, h)
        h = h.to(self.cards[1])
        for block in self.upper:
            h = self.run(block, h)
        return self.head(self.norm(h))


class Accumulator:
    """Splits a batch into micro-batches; each token counts the same, whichever micro-batch it is in."""

    def __init__(self, model, optimizer, micro):
        self.model, self.optimizer, self.micro = model, optimizer, micro

    @staticmethod
    def count_targets(labels):
        return (labels[:, 1:] != IGNORE).sum()

    def objective(self, ids, labels, n_tokens=None):
        logits = self.model(ids)
        target = labels[:, 1:].to(logits.device)
        logits = logits[:, :-1].flatten(0, 1)
        if n_tokens is None:
            return F.cross_entropy(logits, target.flatten(), ignore_index=IGNORE)
        loss_sum = F.cross_entropy(logits, target.flatten(), ignore_index=IGNORE, reduction="sum")
        return loss_sum / n_tokens

    def step(self, ids, labels):
        first = self.model.cards[0]
        ids, labels = ids.to(first), labels.to(first)
        n_tokens = self.count_targets(labels)
        total = 0.0
        for part_ids, part_labels in zip(ids.split(self.micro), labels.split(self.micro)):
            loss = self.objective(part_ids, part_labels, n_tokens)
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    @torch.no_grad()
    def evaluate(self, ids, labels):
        self.model.eval()
        loss = self.objective(ids.to(self.model.cards[0]), labels)
        self.model.train()
        return loss.item()


def padded_batch(count, length, vocab, generator):
    ids = torch.randint(1, vocab, (count, length), generator=generator)
    labels = ids.clone()
    for row, stop in enumerate(torch.randint(length // 2, length, (count,), generator=generator).tolist()):
        ids[row, stop:] = 0
        labels[row, stop:] = IGNORE
    return ids, labels


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=90, n_positions=32, n_embd=32, n_layer=4, n_head=4, attn_implementation="eager")
    model = TwoCardLM(config, ["cuda:0", "cuda:1"])
    trainer = Accumulator(model, torch.optim.AdamW(model.parameters(), 1e-3), micro=4)
    g = torch.Generator().manual_seed(3)
    print("before", round(trainer.evaluate(*padded_batch(8, 24, 90, g)), 3))
    for step in range(4):
        print(step, round(trainer.step(*padded_batch(16, 24, 90, g)), 3))


if __name__ == "__main__":
    main()
