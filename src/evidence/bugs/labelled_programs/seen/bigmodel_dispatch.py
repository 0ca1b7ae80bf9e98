# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: ?
import torch
from torch import nn
from accelerate import dispatch_model


class Attention(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = Attention(d)
        self.ln2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class LM(nn.Module):
    def __init__(self, vocab=64, d=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


device_map = {
    "embed": "cuda:0",
    "blocks.0": "cuda:0",
    "blocks.1.ln1": "cuda:0",
    "blocks.1.attn": "cuda:0",
    "blocks.1.ln2": "cuda:0",
    "blocks.1.mlp": "cuda:1",
    "blocks.2": "cuda:1",
    "norm": "cuda:1",
    "head": "cuda:1",
}


@torch.no_grad()
def sample(model, ids, steps):
    for _ in range(steps):
        logits = model(ids)
        nxt = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt.to(ids.device)], dim=1)
    return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    model = LM().eval()
    model = dispatch_model(model, device_map=device_map, main_device="cuda:0")
    prompt = torch.randint(0, 64, (2, 8), device="cuda:0")
    print(sample(model, prompt, 5).cpu())
