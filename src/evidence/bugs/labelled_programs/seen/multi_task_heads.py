# cause: module-left-on-other-device
# guilty: self.heads[task]
import torch
import torch.nn as nn
import torch.nn.functional as F

TASKS = {"solubility": 1, "toxicity": 3, "binding": 2}


class Trunk(nn.Module):
    def __init__(self, atoms=20, d=32):
        super().__init__()
        self.atom = nn.Embedding(atoms, d)
        self.msg = nn.ModuleList(nn.Linear(d, d) for _ in range(3))

    def forward(self, atoms, adj):
        h = self.atom(atoms)
        for m in self.msg:
            h = h + F.relu(m(adj @ h))
        return h.sum(1)


class MoleculeModel(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.trunk = Trunk(d=d)
        self.heads = {name: nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, k)) for name, k in TASKS.items()}

    def all_parameters(self):
        yield from self.parameters()
        for h in self.heads.values():
            yield from h.parameters()

    def forward(self, atoms, adj, task):
        return self.heads[task](self.trunk(atoms, adj))


def molecules(n, size=8):
    atoms = torch.randint(0, 20, (n, size))
    adj = (torch.rand(n, size, size) < 0.3).float()
    adj = ((adj + adj.transpose(1, 2)) > 0).float()
    return atoms, adj / adj.sum(-1, keepdim=True).clamp(min=1)


def loss_for(task, out, atoms):
    if task == "solubility":
        return F.mse_loss(out.squeeze(-1), atoms.float().mean(1) / 10)
    return F.cross_entropy(out, atoms[:, 0] % TASKS[task])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MoleculeModel().to(device)
    opt = torch.optim.Adam(model.all_parameters(), lr=1e-3)
    for step in range(3):
        opt.zero_grad()
        report = {}
        for task in TASKS:
            atoms, adj = (t.to(device) for t in molecules(8))
            loss = loss_for(task, model(atoms, adj, task), atoms)
            loss.backward()
            report[task] = round(loss.item(), 3)
        opt.step()
        print(step, report)


if __name__ == "__main__":
    main()
