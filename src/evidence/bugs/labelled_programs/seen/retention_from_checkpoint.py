# cause: meta-tensor-not-materialized
# guilty: stage (decay, self.decay)
# line: 64
# repair: after load_state_dict(assign=True) rebuild the non-persistent buffers (layer.decay = make_decay(heads)) before moving, OR create the buffer outside the meta context, OR register it as persistent so that the file holds it
"""Fast loading: build on meta, assign the checkpoint, then send each stage to its card."""
import os
import tempfile

import torch
import torch.nn as nn


def make_decay(heads):
    return 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float))


class Retention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.register_buffer("decay", make_decay(heads), persistent=False)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        at = torch.arange(t, device=x.device)
        gap = (at[:, None] - at[None, :]).clamp_min(0)
        mask = self.decay[:, None, None] ** gap * (at[:, None] >= at[None, :])
        return x + self.out(((q @ k.transpose(-1, -2)) * mask @ v).transpose(1, 2).reshape(n, t, d))


class RetentionLM(nn.Module):
    def __init__(self, vocab=40, dim=32, heads=4, depth=4):
        super().__init__()
        half = depth // 2
        self.embed = nn.Embedding(vocab, dim)
        self.lower = nn.Sequential(*[Retention(dim, heads) for _ in range(half)])
        self.upper = nn.Sequential(*[Retention(dim, heads) for _ in range(depth - half)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.lower(self.embed(ids.to(self.embed.weight.device)))
        return self.head(self.upper(x.to(self.head.weight.device)))


class Loader:
    def __init__(self, path, placement):
        self.path, self.placement = path, placement

    def skeleton(self):
        with torch.device("meta"):
            return RetentionLM()

    def fill(self, model):
        state = torch.load(self.path, map_location="cpu", mmap=True)
        missing, unexpected = model.load_state_dict(state, assign=True, strict=True)
        assert not missing and not unexpected
        return model

    def place(self, model):
        for name, device in self.placement.items():
            stage = getattr(model, name)
            stage.to(device)
        return model.eval()

    def load(self):
        return self.place(self.fill(self.skeleton()))


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lm.pt")
        torch.save(RetentionLM().state_dict(), path)
        placement = {"embed": "cuda:0", "lower": "cuda:0", "upper": "cuda:1", "head": "cuda:1"}
        model = Loader(path, placement).load()
        with torch.no_grad():
            print(model(torch.tensor([[1, 2, 3, 4]])).argmax(-1).tolist())
