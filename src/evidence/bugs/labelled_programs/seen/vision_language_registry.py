# cause: embedding-streams-on-different-devices
# guilty: features (image_features)
"""A small vision-language model put together from a registry."""
import torch
import torch.nn as nn

REGISTRY = {}


def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls
    return wrap


@register("conv_tower")
class ConvTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 8, stride=8)
        self.norm = nn.LayerNorm(dim)

    def forward(self, pixels):
        return self.norm(self.stem(pixels).flatten(2).transpose(1, 2))


@register("mlp_projector")
class MlpProjector(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, out), nn.GELU(), nn.Linear(out, out))

    def forward(self, x):
        return self.net(x)


@register("causal_text")
class CausalText(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.block = nn.TransformerEncoderLayer(dim, 4, dim * 2, batch_first=True, dropout=0.0)
        self.head = nn.Linear(dim, vocab)

    def forward(self, embeds):
        return self.head(self.block(embeds))


class VisionLanguageModel(nn.Module):
    image_token = 3

    def __init__(self, tower, projector, text):
        super().__init__()
        self.tower, self.projector, self.text = tower, projector, text

    def merge(self, ids, features):
        embeds = self.text.embed(ids)
        slots = (ids == self.image_token).unsqueeze(-1).expand_as(embeds)
        return embeds.masked_scatter(slots, features)

    def forward(self, ids, pixels):
        weight = self.tower.stem.weight
        features = self.projector(self.tower(pixels.to(weight.device, weight.dtype)))
        embeds = self.merge(ids.to(self.text.embed.weight.device), features)
        return self.text(embeds)


def build_model(config):
    parts = {}
    for role, spec in config.items():
        part = REGISTRY[spec["type"]](**spec["args"])
        parts[role] = part.to(spec["device"])
    return VisionLanguageModel(**parts)


CONFIG = {
    "tower": {"type": "conv_tower", "args": {"dim": 24}, "device": "cuda:1"},
    "projector": {"type": "mlp_projector", "args": {"dim": 24, "out": 32}, "device": "cuda:1"},
    "text": {"type": "causal_text", "args": {"vocab": 50, "dim": 32}, "device": "cuda:0"},
}

if __name__ == "__main__":
    torch.manual_seed(0)
    model = build_model(CONFIG).eval()
    prompt = torch.tensor([[1, 3, 3, 3, 3, 8, 9, 2]])
    image = torch.rand(1, 3, 16, 16)
    with torch.no_grad():
        logits = model(prompt, image)
    print("next token", int(logits[0, -1].argmax()))
