# cause: quantized-state-on-other-device|hard-coded-device
# guilty: self.up.weight (self.up)
# line: 19
# repair: in GroupQuantiser.apply keep the weight on its own card: weight = linear.weight.data (no .cuda()) OR put the result back with .to(linear.weight.device)
"""Round-to-nearest group quantisation of a spread model, block after block, with error tracking."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FeedBlock(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class SpreadLM(nn.Module):
    def __init__(self, vocab=100, dim=32, hidden=64, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(FeedBlock(dim, hidden) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)

    def place(self, cards):
        self.embed.to(cards[0])
        for i, block in enumerate(self.blocks):
            block.to(cards[i * len(cards) // len(self.blocks)])
        self.head.to(cards[-1])
        return self

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for block in self.blocks:
            x = block(x.to(block.norm.weight.device))
        return self.head(x.to(self.head.weight.device))


class GroupQuantiser:
    def __init__(self, bits=4, group=16, zero_point=True):
        self.bits, self.group, self.zero_point = bits, group, zero_point
        self.report = {}

    def round(self, weight):
        shape = weight.shape
        w = weight.reshape(-1, self.group)
        if self.zero_point:
            low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
            top = 2 ** self.bits - 1
            scale = (high - low).clamp(min=1e-5) / top
            zero = (-low / scale).round().clamp(0, top)
            q = ((w / scale).round() + zero).clamp(0, top)
            w = (q - zero) * scale
        else:
            top = 2 ** (self.bits - 1) - 1
            scale = w.abs().amax(1, keepdim=True).clamp(min=1e-5) / top
            w = (w / scale).round().clamp(-top - 1, top) * scale
        return w.reshape(shape), scale.view(shape[0], -1)

    @staticmethod
    def linears(block):
        return [(n, m) for n, m in block.named_modules() if isinstance(m, nn.Linear)]

    def apply(self, block):
        scales = {}
        for name, linear in self.linears(block):
            weight = linear.weight.data.cuda()
            linear.weight.data, scales[name] = self.round(weight)
        return scales

    @torch.no_grad()
    def run(self, model, ids):
        x = model.embed(ids.to(model.embed.weight.device))
        exact = x
        for i, block in enumerate(model.blocks):
            card = block.norm.weight.device
            x, exact = x.to(card), exact.to(card)
            exact = block(exact)
            scales = self.apply(block)
            x = block(x)
            error = (x - exact).pow(2).mean().sqrt().item()
            self.report[i] = (error, sum(s.numel() for s in scales.values()))
        return model


def perplexity(model, ids):
    with torch.no_grad():
        logits = model(ids)
    labels = ids.to(logits.device)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()).exp().item()


def main():
    torch.manual_seed(0)
    model = SpreadLM().place(["cuda:0", "cuda:1"]).eval()
    ids = torch.randint(0, 100, (4, 32))
    print("before", round(perplexity(model, ids), 2))
    quantiser = GroupQuantiser()
    quantiser.run(model, ids)
    for block, (error, scales) in quantiser.report.items():
        print(f"block {block}: error {error:.4f}, {scales} scales")
    print("after", round(perplexity(model, ids), 2))


if __name__ == "__main__":
    main()
