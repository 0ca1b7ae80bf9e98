# cause: lm-head-or-tied-weight-split
# guilty: self.head (self.head.weight)
# line: 54
# repair: keep embedding and head on one card when the weights are tied: in StoryModel.place put the head on the embedding's card and call self.head(h.to(self.head.weight.device)) OR drop model.tie_weights() so that each card has its own matrix
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.ln2(x))


class StoryModel(nn.Module):
    def __init__(self, vocab=85, dim=32, depth=4, context=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def place(self, cards):
        half = len(self.blocks) // 2
        self.where = [cards[0] if i < half else cards[1] for i in range(len(self.blocks))]
        self.embed.to(cards[0])
        self.pos.to(cards[0])
        for block, card in zip(self.blocks, self.where):
            block.to(card)
        self.norm.to(cards[1])
        self.head.to(cards[1])

    def tie_weights(self):
        self.head.weight = self.embed.weight

    def forward(self, ids):
        h = self.embed(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for block, card in zip(self.blocks, self.where):
            h = block(h.to(card))
        h = self.norm(h)
        return self.head(h)


@torch.no_grad()
def sample(model, ids, n):
    for _ in range(n):
        logits = model(ids)[:, -1]
        token = torch.multinomial(logits.softmax(-1), 1)
        ids = torch.cat([ids, token.to(ids.device)], 1)
    return ids


def main():
    torch.manual_seed(0)
    model = StoryModel()
    model.place(["cuda:0", "cuda:1"])
    model.tie_weights()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        ids = torch.randint(0, 85, (4, 24), device="cuda:0")
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
    print(sample(model.eval(), torch.randint(0, 85, (1, 4), device="cuda:0"), 6).tolist())


main()
