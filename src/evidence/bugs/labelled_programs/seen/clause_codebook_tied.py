# cause: lm-head-or-tied-weight-split|block-split-across-devices
# guilty: self.codes.weight
# line: 47
# repair: in VectorScribe.parallelize keep the tied table and the output together: move x to self.codes.weight.device before F.linear OR keep an untied output layer on cuda:1
"""Legal clause autoencoder: the code table reads the ids and, transposed, writes them."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ScribeBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.mix(self.norm(x))[0]
        return x + self.ff(x)


class VectorScribe(nn.Module):
    def __init__(self, vocab=120, dim=24, depth=4):
        super().__init__()
        self.codes = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(ScribeBlock(dim) for _ in range(depth))
        self.final = nn.LayerNorm(dim)
        self.placement = None

    def parallelize(self, placement):
        """placement: [(device, [block numbers])], in order."""
        self.placement = {i: d for d, blocks in placement for i in blocks}
        first, last = placement[0][0], placement[-1][0]
        self.codes.to(first)
        for i, block in enumerate(self.blocks):
            block.to(self.placement[i])
        self.final.to(last)
        return self

    def forward(self, ids):
        x = self.codes(ids)
        for i, block in enumerate(self.blocks):
            if self.placement:
                x = x.to(self.placement[i])
            x = block(x)
        return F.linear(self.final(x), self.codes.weight)


def step(model, optimizer, ids):
    logits = model(ids)
    target = ids[:, 1:].reshape(-1).to(logits.device)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), target)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    scribe = VectorScribe().parallelize([("cuda:0", [0, 1]), ("cuda:1", [2, 3])])
    opt = torch.optim.Adam(scribe.parameters(), lr=2e-3)
    for epoch in range(3):
        clause = torch.randint(0, 120, (4, 12), device="cuda:0")
        print(epoch, round(step(scribe, opt, clause), 3))
