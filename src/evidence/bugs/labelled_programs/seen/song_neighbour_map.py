# cause: numpy-of-gpu-tensor
# guilty: self.vectors (v)
# line: 72
# repair: in SongLibrary.add hand the wish on: self.embedder.encode(clips, self.batch_size, self.result_device), so the rows come back on the host OR call .cpu() on each row before np.stack
"""Lay a song collection out on a plane and list the nearest neighbours of a song."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ClipNet(nn.Module):
    def __init__(self, bands=16, dim=32):
        super().__init__()
        self.low = nn.Sequential(nn.Conv1d(bands, dim, 5, stride=2, padding=2), nn.GELU())
        self.high = nn.Sequential(nn.Conv1d(dim, dim, 5, stride=2, padding=2), nn.GELU())
        self.out = nn.Linear(2 * dim, dim)

    def place(self, first, second):
        self.low.to(first)
        self.high.to(second)
        self.out.to(second)
        return self

    def forward(self, clips):
        h = self.low(clips)
        h = self.high(h.to(self.out.weight.device))
        return self.out(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


class ClipEmbedder:
    """Runs the network in batches; rows are returned where the caller wants them."""

    def __init__(self, net, first="cuda:0", second="cuda:1"):
        self.net = net.place(first, second).eval()
        self.first, self.second = torch.device(first), torch.device(second)

    @torch.inference_mode()
    def encode(self, clips, batch_size=8, result_device=None):
        result_device = result_device or self.second
        rows = []
        order = sorted(range(len(clips)), key=lambda i: clips[i].shape[-1])
        for start in range(0, len(order), batch_size):
            picked = order[start:start + batch_size]
            longest = max(clips[i].shape[-1] for i in picked)
            batch = torch.stack([F.pad(clips[i], (0, longest - clips[i].shape[-1])) for i in picked])
            vectors = F.normalize(self.net(batch.to(self.first)), dim=-1)
            rows.extend(zip(picked, vectors.to(result_device)))
        rows.sort(key=lambda pair: pair[0])
        return [row for _, row in rows]


class SongLibrary:
    def __init__(self, embedder, batch_size=8, result_device="cpu"):
        self.embedder, self.batch_size = embedder, batch_size
        self.result_device = torch.device(result_device)
        self.titles, self.vectors = [], []

    def add(self, titles, clips):
        self.vectors += self.embedder.encode(clips, self.batch_size)
        self.titles += titles

    def query(self, clip, count=3):
        """Scores are computed on the card, the ranking is cut on the host."""
        probe = self.embedder.encode([clip])[0]
        table = torch.stack(self.vectors).to(probe.device)
        scores = (table @ probe).cpu()
        return [(self.titles[i], round(scores[i].item(), 3)) for i in scores.topk(count).indices.tolist()]

    def layout(self, steps=30, rate=0.05):
        """Two principal axes, then a few repulsion steps against overlaps."""
        table = np.stack([v for v in self.vectors])
        centred = table - table.mean(0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        places = centred @ axes[:2].T
        for _ in range(steps):
            gap = places[:, None] - places[None]
            near = np.exp(-(gap ** 2).sum(-1) / 0.01)
            places = places + rate * (gap * near[..., None]).sum(1)
        return places


def fake_collection(count):
    g = torch.Generator().manual_seed(8)
    lengths = torch.randint(40, 90, (count,), generator=g).tolist()
    return [f"song-{i:02d}" for i in range(count)], [torch.randn(16, n, generator=g) for n in lengths]


def main():
    torch.manual_seed(0)
    library = SongLibrary(ClipEmbedder(ClipNet()))
    titles, clips = fake_collection(20)
    library.add(titles, clips)
    for title, score in library.query(clips[4]):
        print("close:", title, score)
    for title, (x, y) in zip(library.titles, library.layout()):
        print(f"{title} {x:+.3f} {y:+.3f}")


if __name__ == "__main__":
    main()
