# cause: numpy-of-gpu-tensor
# guilty: self.chunks (chunks)
# line: 23
# repair: in EmbeddingSink.__call__ store host copies, `self.chunks.append(output.detach().cpu())`, OR gather in matrix() with `torch.cat(self.chunks).cpu().numpy()`
"""Text-to-text retrieval report: embeddings are collected by a hook and ranked with NumPy."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class EmbeddingSink:
    """Forward hook that gathers what a module puts out."""

    def __init__(self):
        self.chunks = []

    def __call__(self, module, args, output):
        self.chunks.append(output.detach())

    def matrix(self):
        return np.concatenate(self.chunks, axis=0)


class Normalize(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1)


class BagEncoder(nn.Module):
    def __init__(self, vocab, dim, out):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.project = nn.Sequential(nn.Linear(dim, out), nn.Tanh(), nn.Linear(out, out))
        self.normalize = Normalize()

    def forward(self, ids):
        return self.normalize(self.project(self.bag(ids)))


class Pairs:
    def __init__(self, n, vocab, length, seed):
        g = torch.Generator().manual_seed(seed)
        self.queries = torch.randint(0, vocab, (n, length), generator=g)
        noise = torch.randint(0, vocab, (n, length), generator=g)
        keep = torch.rand(n, length, generator=g) < 0.7
        self.documents = torch.where(keep, self.queries, noise)


def recall(similarity, ks=(1, 5, 10)):
    order = np.argsort(-similarity, axis=1)
    gold = np.arange(similarity.shape[0])[:, None]
    return {k: float((order[:, :k] == gold).any(axis=1).mean()) for k in ks}


class RetrievalReport:
    def __init__(self, model, device, batch=32):
        self.model, self.device, self.batch = model.to(device).eval(), device, batch

    @torch.no_grad()
    def embed(self, ids):
        sink = EmbeddingSink()
        handle = self.model.normalize.register_forward_hook(sink)
        try:
            for rows in DataLoader(ids, batch_size=self.batch):
                self.model(rows.to(self.device))
        finally:
            handle.remove()
        return sink.matrix()

    def run(self, pairs):
        queries = self.embed(pairs.queries)
        documents = self.embed(pairs.documents)
        return recall(queries @ documents.T)


if __name__ == "__main__":
    torch.manual_seed(0)
    report = RetrievalReport(BagEncoder(300, 32, 24), torch.device("cuda"))
    for k, value in report.run(Pairs(128, 300, 16, seed=1)).items():
        print(f"recall@{k}: {value:.3f}")
