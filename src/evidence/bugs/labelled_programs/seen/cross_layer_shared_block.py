# cause: lm-head-or-tied-weight-split|module-left-on-other-device|block-split-across-devices
# guilty: self.norm1 (self.norm1.weight, the weights of the shared block)
# line: 26
# repair: do not place one shared block on two cards: in build_stages give each stage its own copy (copy.deepcopy(block) after the first stage), or put all stages that share the block on one card, or move the inputs to next(block.parameters()).device
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIGS = {
    "albert-like": dict(vocab=128, dim=32, heads=4, depth=6, share=True),
    "plain": dict(vocab=128, dim=32, heads=4, depth=6, share=False),
}


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        h = self.norm1(x)
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.norm2(x))


class Stage(nn.Module):
    def __init__(self, blocks, device):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.device = device

    def forward(self, x):
        x = x.to(self.device)
        for block in self.blocks:
            x = block(x)
        return x


def build_stages(cfg, devices):
    if cfg["share"]:
        block = Block(cfg["dim"], cfg["heads"])
        blocks = [block] * cfg["depth"]
    else:
        blocks = [Block(cfg["dim"], cfg["heads"]) for _ in range(cfg["depth"])]
    per = cfg["depth"] // len(devices)
    stages = []
    for i, device in enumerate(devices):
        stages.append(Stage(blocks[i * per:(i + 1) * per], device).to(device))
    return nn.ModuleList(stages)


class MaskedLM(nn.Module):
    def __init__(self, name, devices):
        super().__init__()
        cfg = CONFIGS[name]
        self.embed = nn.Embedding(cfg["vocab"], cfg["dim"]).to(devices[0])
        self.stages = build_stages(cfg, devices)
        self.out = nn.Linear(cfg["dim"], cfg["vocab"]).to(devices[-1])
        self.first = devices[0]

    def forward(self, ids):
        x = self.embed(ids.to(self.first))
        for stage in self.stages:
            x = stage(x)
        return self.out(x)


def mask_tokens(ids, mask_id=1, rate=0.2):
    chosen = torch.rand(ids.shape) < rate
    labels = ids.masked_fill(~chosen, -100)
    return ids.masked_fill(chosen, mask_id), labels


if __name__ == "__main__":
    torch.manual_seed(0)
    model = MaskedLM("albert-like", ["cuda:0", "cuda:1"])
    optim = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for step in range(3):
        inputs, labels = mask_tokens(torch.randint(2, 128, (4, 16)))
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
        optim.zero_grad()
        loss.backward()
        optim.step()
        print(step, loss.item())
