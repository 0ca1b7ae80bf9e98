# cause: adapter-weights-on-other-device|checkpoint-map-location
# guilty: self.a.weight (self.a, self.b)
# line: 23
# repair: in AdapterShelf.activate load without assign=True, so that the values are copied into the weights on their card, OR load the file with map_location=layer.base.weight.device / move layer.a and layer.b to it after load_state_dict
"""Serves one base model with several low-rank adapters that are exchanged between requests."""
import io

import torch
import torch.nn as nn


class LowRank(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        place = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.a = nn.Linear(base.in_features, rank, bias=False, **place)
        self.b = nn.Linear(rank, base.out_features, bias=False, **place)
        nn.init.zeros_(self.b.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.b(self.a(x))

    def adapter_state(self):
        return {"a.weight": self.a.weight.detach(), "b.weight": self.b.weight.detach()}


class ServedModel(nn.Module):
    def __init__(self, cards, dim=32, depth=4, vocab=70):
        super().__init__()
        self.cards = cards
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.layers = nn.ModuleList()
        for i in range(depth):
            card = cards[i * len(cards) // depth]
            self.layers.append(nn.ModuleDict({
                "mix": nn.GRU(dim, dim, batch_first=True),
                "proj": nn.Linear(dim, dim),
            }).to(card))
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, ids):
        x = self.embed(ids.to(self.cards[0]))
        for i, layer in enumerate(self.layers):
            x = x.to(self.cards[i * len(self.cards) // len(self.layers)])
            x = x + layer["proj"](layer["mix"](x)[0])
        return self.head(x)


class AdapterShelf:
    def __init__(self, model, rank=4):
        self.model, self.files = model, {}
        for layer in model.layers:
            layer["proj"] = LowRank(layer["proj"], rank)

    def store(self, name):
        file = io.BytesIO()
        torch.save([layer["proj"].adapter_state() for layer in self.model.layers], file)
        self.files[name] = file

    def randomise(self, seed):
        torch.manual_seed(seed)
        for layer in self.model.layers:
            nn.init.normal_(layer["proj"].b.weight, std=0.1)

    def activate(self, name):
        self.files[name].seek(0)
        states = torch.load(self.files[name], map_location="cpu")
        for layer, state in zip(self.model.layers, states):
            layer["proj"].load_state_dict(state, strict=False, assign=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = ServedModel([torch.device("cuda:0"), torch.device("cuda:1")]).eval()
    shelf = AdapterShelf(model)
    for seed, name in enumerate(["recipes", "letters"]):
        shelf.randomise(seed)
        shelf.store(name)
    requests = [("recipes", [1, 5, 9]), ("letters", [1, 5, 9]), ("recipes", [7, 7])]
    with torch.inference_mode():
        for name, ids in requests:
            shelf.activate(name)
            print(name, model(torch.tensor([ids]))[0, -1].topk(3).indices.tolist())
