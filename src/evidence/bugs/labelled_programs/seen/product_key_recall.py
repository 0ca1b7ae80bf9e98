# cause: input-not-on-embedding-device
# guilty: flat (slots, w, weights)
# line: 30
# repair: send the slots and their weights to the card of the value table: slots.to(self.values.weight.device) and weights.to(self.values.weight.device) in ProductKeyMemory.forward (and bring the result back to x.device)
"""Product-key memory layer whose big value table is put on the second card by a placement hook."""
import torch
import torch.nn as nn


class ProductKeyMemory(nn.Module):
    def __init__(self, dim, n_keys=16, topk=4):
        super().__init__()
        self.n_keys, self.topk = n_keys, topk
        self.query = nn.Linear(dim, dim)
        self.keys = nn.Parameter(torch.randn(2, n_keys, dim // 2) / dim ** 0.5)
        self.values = nn.EmbeddingBag(n_keys * n_keys, dim, mode="sum")

    def search(self, x):
        q1, q2 = self.query(x).chunk(2, -1)
        s1, i1 = (q1 @ self.keys[0].T).topk(self.topk, -1)
        s2, i2 = (q2 @ self.keys[1].T).topk(self.topk, -1)
        scores = (s1[..., :, None] + s2[..., None, :]).flatten(-2)
        index = (i1[..., :, None] * self.n_keys + i2[..., None, :]).flatten(-2)
        best, at = scores.topk(self.topk, -1)
        return index.gather(-1, at), best.softmax(-1)

    def forward(self, x):
        slots, weights = self.search(x)
        flat, w = slots.view(-1, self.topk), weights.view(-1, self.topk)
        out = self.values(flat, per_sample_weights=w)
        return out.view_as(x).to(x.device)


class MemoryLM(nn.Module):
    def __init__(self, vocab=60, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.memory = ProductKeyMemory(dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.out(h + self.memory(h))


def spread(model, main, spare, limit=4096):
    """Everything to the main card, tables above the limit to the spare one."""
    model.to(main)
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.weight.numel() > limit:
            module.to(spare)
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    model = spread(MemoryLM(), "cuda:0", "cuda:1")
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step in range(3):
        ids = torch.randint(0, 60, (4, 10), device="cuda:0")
        logits = model(ids)[:, :-1]
        loss = nn.functional.cross_entropy(logits.reshape(-1, 60), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 3))
