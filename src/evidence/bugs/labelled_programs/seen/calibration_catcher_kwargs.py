# cause: quantized-state-on-other-device|extra-input-on-wrong-device
# guilty: bias (kwargs["bias"])
# line: 34
# repair: in LayerwiseRounder.run move the caught keyword arguments like the inputs: kw = {k: v.to(self.work) for k, v in kw.items()} before layer(x.to(self.work), **kw)
"""Layer-by-layer weight rounding: the stem stays on one card, each layer visits the other."""
import torch
from torch import nn


class Stop(Exception):
    pass


class Catcher(nn.Module):
    def __init__(self, layer, store):
        super().__init__()
        self.layer, self.store = layer, store

    def forward(self, x, **kwargs):
        self.store.append((x, kwargs))
        raise Stop


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qk = nn.Linear(dim, 2 * dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, x, bias=None):
        h = self.norm(x)
        q, k = self.qk(h).chunk(2, dim=-1)
        score = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5 + bias
        return x + score.softmax(-1) @ self.v(h)


class Model(nn.Module):
    def __init__(self, vocab=80, dim=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.slope = nn.Parameter(torch.tensor([0.1]))
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])

    def forward(self, ids):
        x = self.embed(ids)
        t = torch.arange(ids.shape[1], device=x.device)
        bias = -self.slope * (t[:, None] - t[None, :]).abs()
        for layer in self.layers:
            x = layer(x, bias=bias)
        return x


class LayerwiseRounder:
    def __init__(self, model, stem="cuda:0", work="cuda:1", bits=4):
        self.model, self.stem, self.work = model, torch.device(stem), torch.device(work)
        self.levels = 2 ** (bits - 1) - 1

    def catch(self, batches):
        store = []
        self.model.embed.to(self.stem)
        self.model.slope.data = self.model.slope.data.to(self.stem)
        first = self.model.layers[0]
        self.model.layers[0] = Catcher(first, store)
        for ids in batches:
            try:
                self.model(ids.to(self.stem))
            except Stop:
                pass
        self.model.layers[0] = first
        return store

    def quantise(self, layer):
        for lin in (layer.qk, layer.v):
            step = lin.weight.abs().amax(1, keepdim=True) / self.levels
            lin.weight.data = (lin.weight / step).round() * step

    @torch.no_grad()
    def run(self, batches):
        store = self.catch(batches)
        for layer in self.model.layers:
            layer.to(self.work)
            self.quantise(layer)
            store = [(layer(x.to(self.work), **kw), kw) for x, kw in store]
            layer.to("cpu")
        return self.model.to("cpu")


if __name__ == "__main__":
    torch.manual_seed(0)
    model = LayerwiseRounder(Model().eval()).run([torch.randint(0, 80, (2, 10)) for _ in range(3)])
    print(model(torch.randint(0, 80, (1, 10))).norm().item())
