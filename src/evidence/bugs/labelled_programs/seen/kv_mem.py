# cause: cache-or-beam-state-on-wrong-device
# guilty: keys
import torch
from torch import nn

torch.manual_seed(6)
DIM, HEADS, LIMIT = 16, 2, 24


class Mem:
    def __init__(self, model, batch):
        p = next(model.parameters())
        shape = (len(model.layers), batch, HEADS, LIMIT, DIM // HEADS)
        self.k = torch.zeros(shape, device=p.device)
        self.v = torch.zeros(shape, device=p.device)

    def put(self, layer, at, k, v):
        self.k[layer, :, :, at] = k
        self.v[layer, :, :, at] = v
        return self.k[layer, :, :, : at + 1], self.v[layer, :, :, : at + 1]


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.qkv, self.mix = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x, mem, at):
        q, k, v = self.qkv(x).view(x.size(0), 3, HEADS, -1).unbind(1)
        keys, vals = mem.put(self.index, at, k, v)
        w = torch.einsum("bhd,bhnd->bhn", q, keys).softmax(-1)
        return x + self.mix(torch.einsum("bhn,bhnd->bhd", w, vals).flatten(1))


class Decoder(nn.Module):
    def __init__(self, vocab=40):
        super().__init__()
        self.tok = nn.Embedding(vocab, DIM).to("cuda:0")
        self.layers = nn.ModuleList(Layer(i).to("cuda:0" if i < 2 else "cuda:1") for i in range(4))
        self.head = nn.Linear(DIM, vocab).to("cuda:1")

    def forward(self, ids, mem, at):
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x.to(layer.mix.weight.device), mem, at)
        return self.head(x)


with torch.no_grad():
    net = Decoder()
    mem, cur = Mem(net, batch=2), torch.tensor([3, 7], device="cuda:0")
    for at in range(5):
        cur = net(cur, mem, at).argmax(-1).to("cuda:0")
        print(cur.tolist())
