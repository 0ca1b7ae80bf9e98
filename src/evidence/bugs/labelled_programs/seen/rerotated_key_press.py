# cause: rope-table-on-wrong-device
# guilty: inv_freq (self.model.rotary.inv_freq, rotary.inv_freq)
# line: 77
# repair: in KeyPress.rerotate use the table on the device of the keys: inv_freq = self.model.rotary.inv_freq.to(keys.device), OR give every layer its own rotary table that is placed with the layer
"""Long prompt compression: the keys with small norms stay, and are turned to their new, packed positions."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, positions):
        angles = positions[:, None].float() * self.inv_freq
        return torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, cos, sin, past=None):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(h.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(x), (k, v)


class Decoder(nn.Module):
    def __init__(self, cards, vocab=200, dim=32, heads=4, depth=4):
        super().__init__()
        self.cards = [cards[i * len(cards) // depth] for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.rotary = Rotary(dim // heads).to(cards[0])
        self.layers = nn.ModuleList(Layer(dim, heads).to(c) for c in self.cards)
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, ids, start=0, cache=None):
        x = self.embed(ids)
        cos, sin = self.rotary(torch.arange(start, start + ids.shape[1], device=ids.device))
        new = []
        for i, layer in enumerate(self.layers):
            x, cos, sin = (t.to(self.cards[i]) for t in (x, cos, sin))
            x, kv = layer(x, cos, sin, None if cache is None else cache[i])
            new.append(kv)
        return self.head(x[:, -1]), new


class KeyPress:
    def __init__(self, model, keep):
        self.model, self.keep = model, keep

    def select(self, keys):
        score = keys.norm(dim=-1).mean(dim=(0, 1))
        return score.topk(self.keep, largest=False).indices.sort().values

    def rerotate(self, keys, kept):
        inv_freq = self.model.rotary.inv_freq
        shift = torch.arange(self.keep, device=kept.device) - kept
        angles = shift[:, None].float() * inv_freq
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        return keys[:, :, kept] * cos + rotate_half(keys[:, :, kept]) * sin

    def __call__(self, cache):
        pressed = []
        for keys, values in cache:
            kept = self.select(keys)
            pressed.append((self.rerotate(keys, kept), values[:, :, kept]))
        return pressed


@torch.inference_mode()
def answer(model, press, context, steps):
    logits, cache = model(context)
    cache = press(cache)
    words = []
    for step in range(steps):
        token = logits.argmax(-1, keepdim=True).to(context.device)
        words.append(token.item())
        logits, cache = model(token, press.keep + step, cache)
    return words


def main():
    torch.manual_seed(0)
    model = Decoder(["cuda:0", "cuda:1"]).eval()
    press = KeyPress(model, keep=12)
    for length in (40, 56):
        context = torch.randint(0, 200, (1, length), device="cuda:0")
        print(length, answer(model, press, context, steps=5))


if __name__ == "__main__":
    main()
