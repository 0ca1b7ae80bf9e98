# cause: extra-input-on-wrong-device|generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: rows (cols, self.filters[rel], filters)
# line: 54
# repair: in FilteredRanking.rank move the stored index pair to the scores: `rows, cols = (i.to(scores.device) for i in self.filters[rel])` OR build the filters on scorer.device
"""Filtered link prediction: known tails are struck out before the rank is taken."""
import torch
import torch.nn as nn

SCORERS = {}


def register(name):
    def wrap(cls):
        SCORERS[name] = cls
        return cls
    return wrap


@register("distmult")
class DistMult(nn.Module):
    def __init__(self, n_ent, n_rel, dim):
        super().__init__()
        self.ent = nn.Embedding(n_ent, dim)
        self.rel = nn.Embedding(n_rel, dim)

    def all_tails(self, heads, rel):
        return (self.ent(heads) * self.rel.weight[rel]) @ self.ent.weight.T


@register("transe")
class TransE(DistMult):
    def all_tails(self, heads, rel):
        return -torch.cdist(self.ent(heads) + self.rel.weight[rel], self.ent.weight, p=1)


class FilteredRanking:
    def __init__(self, n_ent, device):
        self.n_ent = n_ent
        self.device = device
        self.filters = {}

    def fit(self, triples):
        for rel in triples[:, 1].unique().tolist():
            part = triples[triples[:, 1] == rel].to(self.device)
            self.filters[rel] = (part[:, 0], part[:, 2])
        return self

    @torch.no_grad()
    def rank(self, scorer, rel, tails, device):
        heads = torch.arange(self.n_ent, device=device)
        scores = scorer.all_tails(heads, rel)
        gold = scores[heads, tails.to(device)].clone()
        rows, cols = self.filters[rel]
        scores[rows, cols] = float("-inf")
        return (scores > gold[:, None]).sum(1) + 1


def evaluate(names, placement, triples, n_ent):
    ranking = FilteredRanking(n_ent, placement[0]).fit(triples)
    report = {}
    for name, device in zip(names, placement):
        scorer = SCORERS[name](n_ent, 3, 8).to(device)
        ranks = ranking.rank(scorer, 1, torch.randint(0, n_ent, (n_ent,)), device)
        report[name] = (1.0 / ranks.float()).mean().item()
    return report


if __name__ == "__main__":
    torch.manual_seed(0)
    facts = torch.stack([torch.randint(0, 30, (120,)), torch.randint(0, 3, (120,)),
                         torch.randint(0, 30, (120,))], dim=1)
    print(evaluate(["distmult", "transe"], ["cuda:0", "cuda:1"], facts, 30))
