# cause: adapter-weights-on-other-device
# guilty: self.lora_a
"""Fine-tune a small character LM with low-rank adapters."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog. " * 40
VOCAB = sorted(set(TEXT))
STOI = {c: i for i, c in enumerate(VOCAB)}


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, d=32, heads=4, layers=2, ctx=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(ctx, d))
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos[: idx.size(1)]
        for blk in self.blocks:
            x = blk(x)
        return self.head(x)


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)


def add_lora(model, names=("qkv", "proj"), rank=4):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank))
    for n, p in model.named_parameters():
        p.requires_grad_("lora_" in n)
    return [p for p in model.parameters() if p.requires_grad]


def batches(n, bs, t, device):
    data = torch.tensor([STOI[c] for c in TEXT])
    for _ in range(n):
        ix = torch.randint(0, len(data) - t - 1, (bs,))
        x = torch.stack([data[i:i + t] for i in ix])
        y = torch.stack([data[i + 1:i + t + 1] for i in ix])
        yield x.to(device), y.to(device)


def run(model, params, steps, device):
    opt = torch.optim.AdamW(params, lr=3e-3)
    for x, y in batches(steps, 8, 32, device):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cuda:1"
    lm = CharLM(len(VOCAB)).to(device)
    print("pretrain", run(lm, lm.parameters(), 10, device))
    trainable = add_lora(lm)
    print("adapters", sum(p.numel() for p in trainable))
    print("finetune", run(lm, trainable, 10, device))
