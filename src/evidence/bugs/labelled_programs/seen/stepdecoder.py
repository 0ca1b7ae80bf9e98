# cause: cache-or-beam-state-on-wrong-device
# guilty: past[0] (past or cache)
import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x, past):
        q, k, v = self.qkv(x).chunk(3, -1)
        if past is not None:
            k = torch.cat([past[0], k], 1)
            v = torch.cat([past[1], v], 1)
        att = (q @ k.transpose(1, 2) / k.size(-1) ** 0.5).softmax(-1)
        return x + self.out(att @ v), (k, v)


class Decoder(nn.Module):
    def __init__(self, d=8, n=4, vocab=20):
        super().__init__()
        self.d, self.n = d, n
        self.emb = nn.Embedding(vocab, d).to("cuda:0")
        self.layers = nn.ModuleList(Layer(d).to("cuda:0" if i < n // 2 else "cuda:1") for i in range(n))
        self.lm = nn.Linear(d, vocab).to("cuda:1")

    def empty_cache(self, batch):
        dev = self.emb.weight.device
        make = lambda: torch.zeros(batch, 0, self.d, device=dev)
        return [(make(), make()) for _ in range(self.n)]

    def forward(self, ids, cache):
        x = self.emb(ids)
        fresh = []
        for layer, past in zip(self.layers, cache):
            x = x.to(layer.out.weight.device)
            x, kv = layer(x, past)
            fresh.append(kv)
        return self.lm(x), fresh


@torch.no_grad()
def main():
    torch.manual_seed(0)
    net = Decoder()
    ids = torch.zeros(2, 1, dtype=torch.long, device="cuda:0")
    cache = net.empty_cache(2)
    said = [ids]
    for _ in range(4):
        logits, cache = net(said[-1], cache)
        said.append(logits[:, -1:].argmax(-1).to("cuda:0"))
    print(torch.cat(said, 1).tolist())


main()
