# cause: numpy-of-gpu-tensor
# guilty: scores
import numpy as np
import torch
import torch.nn as nn


def auc(y_true, y_score):
    """Rank statistic; both arguments are arrays."""
    order = np.argsort(y_score)
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    pos = y_true == 1
    n_pos, n_neg = pos.sum(), (~pos).sum()
    return (ranks[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, a, b):
        return nn.functional.cosine_similarity(self.tower(a), self.tower(b))


@torch.no_grad()
def validate(model, pairs, device):
    model.eval()
    score_list, truth_list = [], []
    for a, b, same in pairs:
        sim = model(a.to(device), b.to(device))
        score_list.append(sim)
        truth_list.append(same)
    scores = torch.cat(score_list)
    truth = torch.cat(truth_list)
    return auc(truth.numpy(), scores.numpy())


def make_pairs(n_batches):
    for _ in range(n_batches):
        a = torch.randn(8, 5)
        same = torch.arange(8) % 2
        b = torch.where(same[:, None] == 1, a + 0.1 * torch.randn(8, 5), torch.randn(8, 5))
        yield a, b, same


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = Siamese().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for a, b, same in make_pairs(10):
        model.train()
        target = (same * 2 - 1).to(device)
        z1, z2 = model.tower(a.to(device)), model.tower(b.to(device))
        loss = nn.functional.cosine_embedding_loss(z1, z2, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("auc", validate(model, make_pairs(4), device))


if __name__ == "__main__":
    main()
