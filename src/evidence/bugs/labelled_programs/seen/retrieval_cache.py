# cause: extra-input-on-wrong-device
# guilty: cache
"""Re-ranker that mixes a query encoding with precomputed passage vectors."""
import torch
from torch import nn


class Reranker(nn.Module):
    def __init__(self, vocab=80, dim=32):
        super().__init__()
        self.tok = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.query = nn.Linear(dim, dim)
        self.score = nn.Linear(3 * dim, 1)

    def forward(self, ids, cache):
        q = self.query(self.tok(ids))
        q = q[:, None, :].expand(-1, cache.size(1), -1)
        pair = torch.cat([q, cache, (q.sum(-1, keepdim=True)).expand_as(q)], dim=-1)
        return self.score(pair).squeeze(-1)


def read_passages(n_queries: int, n_docs: int, dim: int) -> torch.Tensor:
    # stands in for a memory-mapped file of passage vectors
    g = torch.Generator().manual_seed(11)
    return torch.randn(n_queries, n_docs, dim, generator=g)


def rank(model: nn.Module, queries: torch.Tensor, passages: torch.Tensor, top: int = 3) -> torch.Tensor:
    with torch.no_grad():
        return model(queries, passages).topk(top, dim=-1).indices.cpu()


def main() -> None:
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = Reranker().to(device).eval()
    passages = read_passages(4, 9, 32)
    queries = torch.randint(0, 80, (4, 6))
    order = rank(model, queries.to(device), passages)
    for row in order:
        print(row.tolist())


main()
