# cause: adapter-weights-on-other-device
# guilty: self.down (adapter, self.down.weight)
# line: 46
# repair: in Switchboard.add create each adapter on the device of its own block (.to(next(block.parameters()).device)) instead of the device of the model's first parameter
"""Houlsby adapters for several tenants over a backbone that accelerate has split."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class Backbone(nn.Module):
    def __init__(self, vocab=70, dim=32, depth=4, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.cls = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.cls(x[:, 0])


class Adapter(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.down, self.up = nn.Linear(dim, rank), nn.Linear(rank, dim)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x)))


class Switchboard:
    def __init__(self, model):
        self.model, self.tenants, self.active = model, {}, None
        for i, block in enumerate(model.blocks):
            block.register_forward_hook(self.make_hook(i))

    def make_hook(self, i):
        def hook(module, args, output):
            if self.active is None:
                return output
            return self.tenants[self.active][i](output)
        return hook

    def add(self, tenant, rank=4):
        home = next(self.model.parameters()).device
        dim = self.model.embed.embedding_dim
        self.tenants[tenant] = nn.ModuleList(Adapter(dim, rank) for _ in self.model.blocks).to(home)
        return self.tenants[tenant].parameters()

    def use(self, tenant):
        self.active = tenant
        return self


def load(depth=4):
    model = Backbone(depth=depth).requires_grad_(False)
    plan = {"embed": "cuda:0", "cls": "cuda:1"}
    plan.update({f"blocks.{i}": "cuda:0" if i * 2 < depth else "cuda:1" for i in range(depth)})
    return dispatch_model(model, device_map=plan)


if __name__ == "__main__":
    torch.manual_seed(0)
    board = Switchboard(load())
    optimizer = torch.optim.AdamW(board.add("acme"), lr=1e-3)
    for _ in range(3):
        ids, y = torch.randint(0, 70, (4, 9)), torch.randint(0, 3, (4,), device="cuda:0")
        loss = F.cross_entropy(board.use("acme").model(ids.to("cuda:0")), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
