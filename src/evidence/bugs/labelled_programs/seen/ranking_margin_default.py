# cause: hard-coded-device|tensor-created-on-wrong-device|loss-or-label-on-other-device
# guilty: margins
# line: 23
# repair: give pairwise_hinge margins=None and make the tensor inside on scores.device OR in pairwise_hinge use margins.to(scores.device)[grade]
"""Pairwise ranking on the second card while the first one is busy with something else."""
import torch
import torch.nn as nn

DEVICE = torch.device("cuda:0")


def pick_device(minimum_index=1):
    """The last card when there are several, else the first."""
    count = torch.cuda.device_count()
    return torch.device(f"cuda:{count - 1}") if count > minimum_index else DEVICE


def pairwise_hinge(scores, grades, margins=torch.tensor([0.0, 0.5, 1.0, 1.5], device=DEVICE)):
    """Hinge loss of all pairs of one query; the wanted margin grows with the gap of the grades."""
    gap = grades[:, None] - grades[None, :]
    better = gap > 0
    diff = scores[:, None] - scores[None, :]
    wanted = margins[gap.clamp(min=0)]
    losses = torch.relu(wanted - diff)
    return losses[better].mean() if better.any() else scores.sum() * 0


class Ranker(nn.Module):
    def __init__(self, features=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)[:, 0]


def make_query(generator, size=10):
    x = torch.randn(size, 12, generator=generator)
    grades = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0.5).long() + (x[:, 3] > 1).long()
    return x, grades


@torch.no_grad()
def reciprocal_rank(model, queries, device):
    total = 0.0
    for x, grades in queries:
        order = model(x.to(device)).argsort(descending=True).cpu()
        hits = (grades[order] == grades.max()).nonzero()
        total += 1.0 / (1 + hits[0].item())
    return total / len(queries)


def main():
    torch.manual_seed(0)
    device = pick_device()
    gen = torch.Generator().manual_seed(4)
    train = [make_query(gen) for _ in range(6)]
    held_out = [make_query(gen) for _ in range(4)]
    model = Ranker().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(2):
        for x, grades in train:
            loss = pairwise_hinge(model(x.to(device)), grades.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), reciprocal_rank(model, held_out, device))


if __name__ == "__main__":
    main()
