# cause: device-map-incomplete-or-wrong
# guilty: query_tokens (connector.query_tokens, plan, device_map)
# line: 71
# repair: name the new parameter in plan_for: "connector.query_tokens" (or the whole "connector") on the second card; the plan still lists the parts of the old connector only
"""Vision model with a resampler; the hand-written plan was made for an older version of it."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class PatchTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, batch_first=True, dropout=0.0)

    def forward(self, image):
        return self.layer(self.patch(image).flatten(2).transpose(1, 2))


class ConnectorV1(nn.Module):
    """Mean pooling and a projection."""

    def __init__(self, dim, out):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(dim), nn.Linear(dim, out)

    def forward(self, x):
        return self.proj(self.norm(x)).mean(1)


class ConnectorV2(ConnectorV1):
    """Learned queries look at the patches."""

    def __init__(self, dim, out, queries=4):
        super().__init__(dim, out)
        self.query_tokens = nn.Parameter(torch.randn(1, queries, dim) * 0.02)

    def forward(self, x):
        x = self.norm(x)
        scores = self.query_tokens.to(x.device) @ x.transpose(1, 2)
        return self.proj(scores.softmax(-1) @ x).mean(1)


CONNECTORS = {1: ConnectorV1, 2: ConnectorV2}


class Classifier(nn.Module):
    def __init__(self, version, dim=32, out=24, classes=7):
        super().__init__()
        self.tower = PatchTower(dim)
        self.connector = CONNECTORS[version](dim, out)
        self.head = nn.Linear(out, classes)

    def forward(self, image):
        return self.head(self.connector(self.tower(image)))


def plan_for(first, second):
    return {"tower.patch": first, "tower.layer": first, "connector.norm": second,
            "connector.proj": second, "head": second}


class Service:
    def __init__(self, version, cards=("cuda:0", "cuda:1")):
        self.model = self.place(Classifier(version).eval(), plan_for(*cards))
        self.entry = cards[0]

    def place(self, model, plan):
        return dispatch_model(model, plan)

    @torch.no_grad()
    def top(self, images, k=3):
        return F.softmax(self.model(images.to(self.entry)), -1).topk(k)


if __name__ == "__main__":
    torch.manual_seed(0)
    service = Service(version=2)
    values, classes = service.top(torch.rand(2, 3, 16, 16))
    print(classes.tolist(), values.tolist())
