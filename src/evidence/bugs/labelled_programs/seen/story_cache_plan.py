# cause: cache-or-beam-state-on-wrong-device
# guilty: self.keys[index] (self.values[index])
# line: 70
# repair: in layer_cards keep the layers in model order: [next(l.parameters()).device for l in model.layers] instead of sorting their names as text OR sort by the number in the name
"""Story generation with a deep model on two cards and a key/value cache planned ahead."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StoryLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, cache, index):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = cache.extend(index, k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.n2(x))


class StoryLM(nn.Module):
    def __init__(self, vocab=80, dim=32, heads=4, depth=12, longest=128):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.words, self.places = nn.Embedding(vocab, dim), nn.Embedding(longest, dim)
        self.layers = nn.ModuleList(StoryLayer(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def split(self, cards):
        self.words.to(cards[0]), self.places.to(cards[0])
        per_card = -(-len(self.layers) // len(cards))
        for i, layer in enumerate(self.layers):
            layer.to(cards[i // per_card])
        self.norm.to(cards[-1]), self.head.to(cards[-1])
        return self

    def forward(self, ids, cache):
        ids = ids.to(self.words.weight.device)
        start = cache.length()
        places = torch.arange(start, start + ids.shape[1], device=ids.device)
        x = self.words(ids) + self.places(places)
        for i, layer in enumerate(self.layers):
            x = layer(x.to(layer.n1.weight.device), cache, i)
        return self.head(self.norm(x.to(self.head.weight.device)))


def layer_cards(model):
    """Card of each layer, read off the model whatever splitter was used."""
    named = {name: m for name, m in model.named_modules() if isinstance(m, StoryLayer)}
    return [next(named[name].parameters()).device for name in sorted(named)]


class PlannedCache:
    def __init__(self, cards, batch, heads, head_dim):
        self.keys = [torch.empty(batch, heads, 0, head_dim, device=c) for c in cards]
        self.values = [torch.empty(batch, heads, 0, head_dim, device=c) for c in cards]

    def length(self):
        return self.keys[0].shape[2]

    def extend(self, index, k, v):
        self.keys[index] = torch.cat([self.keys[index], k], dim=2)
        self.values[index] = torch.cat([self.values[index], v], dim=2)
        return self.keys[index], self.values[index]

    def footprint(self):
        sizes = {}
        for k, v in zip(self.keys, self.values):
            sizes[str(k.device)] = sizes.get(str(k.device), 0) + k.numel() + v.numel()
        return sizes


@torch.inference_mode()
def tell(model, prompt, steps=20, temperature=0.8, top=10):
    cache = PlannedCache(layer_cards(model), prompt.shape[0], model.heads, model.head_dim)
    story, ids = prompt, prompt
    for _ in range(steps):
        scores = model(ids, cache)[:, -1] / temperature
        best, tokens = scores.topk(top, dim=-1)
        pick = torch.multinomial(best.softmax(-1), 1)
        ids = tokens.gather(1, pick).to(story.device)
        story = torch.cat([story, ids], dim=1)
    return story, cache.footprint()


def main():
    torch.manual_seed(0)
    model = StoryLM().split(["cuda:0", "cuda:1"]).eval()
    prompt = torch.randint(0, 80, (2, 6))
    story, footprint = tell(model, prompt)
    print(story.tolist())
    print(footprint)


if __name__ == "__main__":
    main()
