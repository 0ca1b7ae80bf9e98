# cause: input-not-on-embedding-device|hard-coded-device
# guilty: local (ids, local ids)
# line: 27
# repair: in ShardedEntities.forward send the local ids to the shard: `shard(local.to(shard.weight.device))` (the rows are brought home by the assignment)
"""Knowledge graph embeddings: the entity table is too big for one card and lies in shards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ShardedEntities(nn.Module):
    def __init__(self, n, dim, devices):
        super().__init__()
        self.size = -(-n // len(devices))
        self.dim = dim
        self.home = devices[0]
        self.shards = nn.ModuleList(nn.Embedding(self.size, dim).to(d) for d in devices)

    def forward(self, ids):
        flat = ids.reshape(-1)
        rows = torch.empty(flat.numel(), self.dim, device=self.home)
        for k, shard in enumerate(self.shards):
            mine = (flat // self.size) == k
            if not mine.any():
                continue
            local = flat[mine] - k * self.size
            rows[mine] = shard(local).to(rows.device)
        return rows.view(*ids.shape, self.dim)


class RotationModel(nn.Module):
    def __init__(self, entities, relations, dim=16, devices=("cuda:0", "cuda:1"), margin=6.0):
        super().__init__()
        self.entities = ShardedEntities(entities, 2 * dim, devices)
        self.phase = nn.Embedding(relations, dim).to(devices[0])
        self.margin = margin

    def score(self, head, rel, tail):
        h_re, h_im = self.entities(head).chunk(2, dim=-1)
        t_re, t_im = self.entities(tail).chunk(2, dim=-1)
        angle = self.phase(rel)
        re = h_re * angle.cos() - h_im * angle.sin() - t_re
        im = h_re * angle.sin() + h_im * angle.cos() - t_im
        return self.margin - torch.stack([re, im]).norm(dim=0).sum(-1)

    def loss(self, triples, negatives):
        head, rel, tail = triples.unbind(1)
        pos = self.score(head, rel, tail)
        neg = self.score(head, rel, negatives)
        return -(F.logsigmoid(pos) + F.logsigmoid(-neg)).mean()


def triple_stream(n, entities, relations, device):
    for _ in range(n):
        t = torch.stack([torch.randint(0, entities, (32,)), torch.randint(0, relations, (32,)),
                         torch.randint(0, entities, (32,))], dim=1)
        yield t.to(device), torch.randint(0, entities, (32,), device=device)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = RotationModel(1000, 12)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for triples, negatives in triple_stream(4, 1000, 12, "cuda:0"):
        loss = model.loss(triples, negatives)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(round(loss.item(), 4))
