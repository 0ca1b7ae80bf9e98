# cause: extra-input-on-wrong-device
# guilty: CONTEXT["mask"]
# line: 34
# repair: pass the mask to the checkpointed block as an argument (checkpoint(block, x, mask, use_reentrant=False)) in place of the shared CONTEXT, which the last stage overwrote before the recomputation OR keep one mask per device in CONTEXT
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CONTEXT = {"mask": None, "segments": None}


def packed_mask(segments):
    same = segments[:, :, None] == segments[:, None, :]
    n = segments.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool, device=segments.device).tril()
    return ~(same & causal).unsqueeze(1)


class PackedBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * 2), nn.GELU(),
                                 nn.Linear(dim * 2, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(CONTEXT["mask"], float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        x = x + self.out(y)
        return x + self.mlp(x)


class PackedLM(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.stages = nn.ModuleList(
            nn.ModuleList(PackedBlock(dim, 4) for _ in range(depth // 2)) for _ in range(2))
        self.head = nn.Linear(dim, vocab)
        self.cards = ["cuda:0", "cuda:1"]
        self.embed.to(self.cards[0])
        for stage, card in zip(self.stages, self.cards):
            stage.to(card)
        self.head.to(self.cards[1])

    def forward(self, ids, segments):
        x = self.embed(ids.to(self.cards[0]))
        for stage, card in zip(self.stages, self.cards):
            x = x.to(card)
            CONTEXT["mask"] = packed_mask(segments.to(card))
            for block in stage:
                x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return self.head(x)


def pack(batch=2, docs=(5, 7, 4)):
    ids = torch.randint(0, 64, (batch, sum(docs)))
    segments = torch.cat([torch.full((n,), i) for i, n in enumerate(docs)]).expand(batch, -1)
    return ids, segments


def main():
    torch.manual_seed(0)
    model = PackedLM()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids, segments = pack()
    model.eval()
    with torch.no_grad():
        print("before", model(ids, segments).logsumexp(-1).mean().item())
    model.train()
    for step in range(3):
        ids, segments = pack()
        logits = model(ids[:, :-1], segments[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
