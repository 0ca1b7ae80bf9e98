# cause: tensor-created-on-wrong-device
# guilty: neg (neg_edge_index or neg)
"""Link prediction for a social graph, plain torch."""
import torch
import torch.nn.functional as F


def sparse_negatives(edge_index, n_nodes, k):
    taken = set((edge_index[0] * n_nodes + edge_index[1]).tolist())
    out = []
    while len(out) < k:
        cand = int(torch.randint(n_nodes * n_nodes, (1,)))
        if cand not in taken:
            out.append(cand)
    flat = torch.tensor(out)
    return torch.stack([flat // n_nodes, flat % n_nodes])


class SAGE(torch.nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.self1, self.nb1 = torch.nn.Linear(i, h), torch.nn.Linear(i, h, bias=False)
        self.self2, self.nb2 = torch.nn.Linear(h, o), torch.nn.Linear(h, o, bias=False)

    @staticmethod
    def mean_nb(x, ei):
        s = torch.zeros_like(x).index_add(0, ei[1], x[ei[0]])
        deg = torch.zeros(len(x), device=x.device).index_add(0, ei[1], torch.ones(ei.shape[1], device=x.device))
        return s / deg.clamp(min=1).unsqueeze(1)

    def encode(self, x, ei):
        x = F.relu(self.self1(x) + self.nb1(self.mean_nb(x, ei)))
        return self.self2(x) + self.nb2(self.mean_nb(x, ei))

    def decode(self, z, pairs):
        return (z[pairs[0]] * z[pairs[1]]).sum(-1)


def step(model, opt, x, ei):
    z = model.encode(x, ei)
    neg = sparse_negatives(ei, len(x), ei.shape[1])
    pairs = torch.cat([ei, neg], dim=1)
    y = torch.cat([torch.ones(ei.shape[1]), torch.zeros(neg.shape[1])]).to(x.device)
    loss = F.binary_cross_entropy_with_logits(model.decode(z, pairs), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


if __name__ == "__main__":
    device = torch.device("cuda")
    x = torch.randn(50, 16).to(device)
    ei = torch.randint(0, 50, (2, 120)).to(device)
    model = SAGE(16, 32, 16).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        print(epoch, step(model, opt, x, ei))
