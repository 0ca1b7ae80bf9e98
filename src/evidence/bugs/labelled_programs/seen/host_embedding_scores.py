# cause: offload-hook-bypassed
# guilty: self.items.weight (self.model.items.weight, items.weight)
# line: 33
# repair: in NextItemModel.forward do not read the offloaded weight: compute the scores in the module that owns it (a module whose forward does F.linear, so that its hook brings the weight) OR place "items" on a GPU in PLACEMENT
"""Next-item recommendation: a large item table stays on the host, the encoder is on two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model

PLACEMENT = {"items": "cpu", "positions": 0, "layers.0": 0, "layers.1": 1, "norm": 1}


class NextItemModel(nn.Module):
    def __init__(self, n_items, dim=32, max_len=20):
        super().__init__()
        self.items = nn.Embedding(n_items, dim)
        self.positions = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.norm = nn.LayerNorm(dim)

    def encode(self, history):
        pos = torch.arange(history.shape[1], device=history.device)
        x = self.items(history) + self.positions(pos)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)[:, -1]

    def forward(self, history):
        user = self.encode(history)
        return F.linear(user, self.items.weight)


class Recommender:
    def __init__(self, n_items):
        self.model = dispatch_model(NextItemModel(n_items).eval(), device_map=PLACEMENT, main_device=0)

    @torch.no_grad()
    def recommend(self, history, k=5):
        scores = self.model(history)
        scores = scores.scatter(1, history.to(scores.device), float("-inf"))
        return scores.topk(k).indices.tolist()


def sessions(n_items, users, length, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(1, n_items, (users, length), generator=g)


if __name__ == "__main__":
    torch.manual_seed(0)
    recommender = Recommender(n_items=500)
    histories = sessions(500, users=3, length=12)
    for user, items in enumerate(recommender.recommend(histories)):
        print("user", user, "->", items)
