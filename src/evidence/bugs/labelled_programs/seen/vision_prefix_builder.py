# cause: embedding-streams-on-different-devices
# guilty: image (features, image_rows, images)
# line: 63
# repair: in PrefixModel.join move the image rows, image.to(text.device), before the cat OR build the projector with device plan["text"] and move the tower's output into it OR set plan["vision"] and plan["text"] to one card
"""A vision-language model assembled from registered parts, each with its own card."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PARTS = {}


def register(name):
    def wrap(cls):
        PARTS[name] = cls
        return cls

    return wrap


@register("patch_tower")
class PatchTower(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, stride=8)
        self.mix = nn.TransformerEncoderLayer(dim, 4, 48, dropout=0.0, batch_first=True)

    def forward(self, pixels):
        return self.mix(self.patch(pixels).flatten(2).transpose(1, 2))


@register("mlp_projector")
class Projector(nn.Sequential):
    def __init__(self, source=24, target=32):
        super().__init__(nn.Linear(source, target), nn.GELU(), nn.Linear(target, target))


@register("gru_lm")
class RecurrentLM(nn.Module):
    def __init__(self, vocab=80, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, embeds):
        return self.head(self.rnn(embeds)[0])


class PrefixModel(nn.Module):
    def __init__(self, tower, projector, language):
        super().__init__()
        self.tower, self.projector, self.language = tower, projector, language

    def encode(self, pixels):
        pixels = pixels.to(self.tower.patch.weight.device)
        return self.projector(self.tower(pixels))

    def join(self, pixels, ids):
        text = self.language.embed(ids)
        image = self.encode(pixels)
        start, rest = text[:, :1], text[:, 1:]
        return torch.cat([start, image, rest], dim=1), image.shape[1]

    def forward(self, pixels, ids, labels):
        embeds, offset = self.join(pixels, ids)
        logits = self.language(embeds)[:, offset:-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


def build(spec, plan):
    made = {}
    for role, name in spec.items():
        made[role] = PARTS[name]().to(plan["text" if role == "language" else "vision"])
    return PrefixModel(**made)


if __name__ == "__main__":
    torch.manual_seed(0)
    spec = {"tower": "patch_tower", "projector": "mlp_projector", "language": "gru_lm"}
    plan = {"vision": "cuda:1", "text": "cuda:0"}
    model = build(spec, plan)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        ids = torch.randint(0, 80, (2, 9)).to(plan["text"])
        loss = model(torch.rand(2, 3, 32, 32), ids, ids.clone())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 4))
