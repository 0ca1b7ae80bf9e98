# cause: extra-input-on-wrong-device|hard-coded-device|cache-or-beam-state-on-wrong-device
# guilty: store[name] (clean[name] or donor or self.store[name])
"""Activation patching: activations of a clean run are blended into a corrupted run."""
from contextlib import contextmanager

import torch
from torch import nn


class Toy(nn.Module):
    def __init__(self, d=48, n=3, vocab=50):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.mixers = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(n))
        self.unembed = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        h = self.emb(ids)
        for m in self.mixers:
            h = h + m(h) + h.mean(1, keepdim=True)
        return self.unembed(h)


@contextmanager
def hooks(pairs):
    handles = [m.register_forward_hook(f) for m, f in pairs]
    try:
        yield
    finally:
        for h in handles:
            h.remove()


def record(model, ids):
    store = {}
    def keep(name):
        def f(mod, inp, out):
            store[name] = out.detach().to("cpu")
        return f
    with hooks([(m, keep(n)) for n, m in model.mixers.named_children()]):
        model(ids)
    return store


def patch(model, ids, store, name, alpha):
    def blend(mod, inp, out):
        return (1 - alpha) * out + alpha * store[name]
    with hooks([(model.mixers[int(name)], blend)]):
        return model(ids)


@torch.no_grad()
def main():
    model = Toy().to("cuda:0")
    clean, corrupt = torch.randint(0, 50, (2, 1, 9), device="cuda:0")
    store = record(model, clean)
    base = model(corrupt)[0, -1]
    for name in store:
        effect = patch(model, corrupt, store, name, 0.7)[0, -1] - base
        print(name, effect.norm().item())


main()
