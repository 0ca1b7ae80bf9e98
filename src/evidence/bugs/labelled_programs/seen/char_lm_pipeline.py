# cause: lm-head-or-tied-weight-split
# guilty: self.decode_weight
"""Character model cut in two: lower half on the first card, upper half on the second."""
import torch
from torch import nn


class Lower(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True)
                                    for _ in range(depth))

    def forward(self, ids, mask):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return x


class Upper(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True)
                                    for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def share_output(self, owner):
        self.owner = [owner]

    @property
    def decode_weight(self):
        return self.owner[0].weight

    def forward(self, x, mask):
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return self.norm(x) @ self.decode_weight.t()


class CharLM:
    def __init__(self, vocab=32, dim=16, depth=4, first="cuda:0", second="cuda:1"):
        self.first, self.second = torch.device(first), torch.device(second)
        self.lower = Lower(vocab, dim, depth // 2).to(self.first)
        self.upper = Upper(dim, depth // 2).to(self.second)
        self.upper.share_output(self.lower.embed)

    def parameters(self):
        return [*self.lower.parameters(), *self.upper.parameters()]

    def __call__(self, ids):
        n = ids.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=self.first)
        x = self.lower(ids.to(self.first), mask)
        return self.upper(x.to(self.second), mask.to(self.second))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = CharLM()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        text = torch.randint(0, 32, (4, 17))
        logits = model(text[:, :-1])
        target = text[:, 1:].to(logits.device)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
