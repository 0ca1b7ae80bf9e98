# cause: checkpoint-map-location
# guilty: self.mix
import pathlib
import tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F


class Scorer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.mix = nn.Bilinear(d, d, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, q, docs):
        q = q.expand(docs.size(0), -1)
        return self.out(torch.relu(self.mix(q, docs))).squeeze(-1)


class Trainer:
    device = torch.device("cuda:1")

    def __init__(self, d):
        self.scorer = Scorer(d).to(self.device)
        self.opt = torch.optim.Adam(self.scorer.parameters(), 1e-3)

    def fit(self, queries, docs, steps=5):
        for i in range(steps):
            q = queries[i % len(queries)].to(self.device)
            d = docs.to(self.device)
            target = F.cosine_similarity(q[None], d)
            loss = F.mse_loss(self.scorer(q, d), target)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    def export(self, path):
        self.scorer.eval()
        torch.save(self.scorer, path)


class RerankService:
    def __init__(self, path, index, device="cuda:0"):
        self.device = torch.device(device)
        self.scorer = torch.load(path, weights_only=False)
        self.index = F.normalize(index, dim=1).to(self.device)

    @torch.no_grad()
    def query(self, vec, k=10, keep=3):
        vec = vec.to(self.device)
        near = (self.index @ F.normalize(vec, dim=0)).topk(k).indices
        cand = self.index[near]
        scores = self.scorer(vec, cand)
        order = scores.argsort(descending=True)[:keep]
        return near[order].cpu().tolist()


if __name__ == "__main__":
    torch.manual_seed(9)
    docs, queries = torch.randn(100, 24), torch.randn(6, 24)
    with tempfile.TemporaryDirectory() as folder:
        artefact = pathlib.Path(folder) / "scorer.pt"
        trainer = Trainer(24)
        print("fit", trainer.fit(queries, docs))
        trainer.export(artefact)
        service = RerankService(artefact, docs)
        for q in queries:
            print(service.query(q))
