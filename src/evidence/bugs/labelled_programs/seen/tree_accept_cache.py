# cause: cache-or-beam-state-on-wrong-device|generation-helper-on-wrong-device
# guilty: path (keep)
# line: 20
# repair: in LayerStore.keep select with path.to(self.k.device) OR in TreeVerifier.accept move the path for each store (store.keep(path.to(store.k.device)))
"""Token-tree verification: keep only the cached positions of the accepted branch."""
import torch
from torch import nn


class LayerStore:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=1)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=1)
        return self.k, self.v

    def keep(self, path):
        self.k = self.k.index_select(1, path)
        self.v = self.v.index_select(1, path)


class Attend(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, store):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        k, v = store.append(k, v)
        return x + self.out((q @ k.transpose(1, 2) / 4).softmax(-1) @ v)


class Verifier(nn.Module):
    def __init__(self, vocab=50, dim=16, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to("cuda:0")
        self.blocks = nn.ModuleList([Attend(dim).to(f"cuda:{i // (depth // 2)}") for i in range(depth)])
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def forward(self, ids, stores):
        x = self.embed(ids)
        for block, store in zip(self.blocks, stores):
            x = block(x.to(block.out.weight.device), store)
        return self.head(x).to(ids.device)


class TreeVerifier:
    def __init__(self, model):
        self.model = model
        self.stores = [LayerStore() for _ in model.blocks]

    @torch.no_grad()
    def prefill(self, ids):
        self.model(ids, self.stores)
        self.length = ids.shape[1]

    @torch.no_grad()
    def accept(self, tree_ids, branches):
        logits = self.model(tree_ids, self.stores)
        guess = logits.argmax(-1)[0]
        hits = [int((guess[b[:-1]] == tree_ids[0, b[1:]]).sum()) for b in branches]
        best = branches[max(range(len(hits)), key=hits.__getitem__)]
        old = torch.arange(self.length, device=tree_ids.device)
        path = torch.cat([old, best + self.length])
        for store in self.stores:
            store.keep(path)
        self.length = path.numel()
        return tree_ids[0, best]


if __name__ == "__main__":
    torch.manual_seed(2)
    engine = TreeVerifier(Verifier().eval())
    engine.prefill(torch.randint(0, 50, (1, 8), device="cuda:0"))
    branches = [torch.tensor(b, device="cuda:0") for b in ([0, 1, 3], [0, 2, 4])]
    for _ in range(2):
        tree = torch.randint(0, 50, (1, 5), device="cuda:0")
        print(engine.accept(tree, branches).tolist(), engine.length)
