# cause: embedding-streams-on-different-devices
# guilty: features (image_features, source)
# line: 67
# repair: in DocVLM.merge move the features to the text embeddings: features.to(embeds.device, embeds.dtype) OR place the projector with the embedding (in PLACEMENT give "projector" to cuda:0 and move the tower's output there)
"""Document reader: vision tower and projector on the second card, language model on the first."""
import torch
import torch.nn.functional as F
from torch import nn

IMAGE_TOKEN = 5
PLACEMENT = {"vision": "cuda:1", "projector": "cuda:1", "language": "cuda:0"}


class PatchTower(nn.Module):
    def __init__(self, patch=8, width=24, layers=2):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        layer = nn.TransformerEncoderLayer(width, 4, 48, batch_first=True, dropout=0.0)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, pixels):
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        return self.blocks(x)


class Projector(nn.Module):
    """Merges 2x2 neighbouring patches into one visual token."""

    def __init__(self, width, out):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * width, out), nn.GELU(), nn.Linear(out, out))

    def forward(self, x):
        b, n, w = x.shape
        return self.mlp(x.reshape(b, n // 4, 4 * w))


class TinyLanguage(nn.Module):
    def __init__(self, vocab=100, width=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, dropout=0.0)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab)

    def forward(self, embeds):
        t = embeds.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool, device=embeds.device).triu(1)
        return self.head(self.blocks(embeds, mask=causal))


class DocVLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = PatchTower()
        self.projector = Projector(24, 32)
        self.language = TinyLanguage()

    def encode_images(self, pixels):
        device = self.vision.patches.weight.device
        return self.projector(self.vision(pixels.to(device)))

    def merge(self, ids, embeds, features):
        mask = (ids == IMAGE_TOKEN).unsqueeze(-1).expand_as(embeds)
        if int(mask[..., 0].sum()) != features.shape[0] * features.shape[1]:
            raise ValueError("image tokens and features do not match")
        return embeds.masked_scatter(mask, features.reshape(-1, features.shape[-1]))

    def forward(self, ids, pixels=None):
        embeds = self.language.embed(ids)
        if pixels is not None:
            embeds = self.merge(ids, embeds, self.encode_images(pixels))
        return self.language(embeds)


def place(model, placement):
    for name, device in placement.items():
        model.get_submodule(name).to(device)
    return model


class Processor:
    def __init__(self, tokens_per_image):
        self.tokens_per_image = tokens_per_image

    def __call__(self, prompts, images):
        rows = [[1] + [IMAGE_TOKEN] * self.tokens_per_image + [10 + ord(c) % 80 for c in p[:8].ljust(8)]
                for p in prompts]
        return {"ids": torch.tensor(rows), "pixels": torch.stack(images)}


if __name__ == "__main__":
    torch.manual_seed(0)
    model = place(DocVLM().eval(), PLACEMENT)
    batch = Processor(4)(["total?", "date?"], [torch.rand(3, 32, 32) for _ in range(2)])
    batch = {k: v.to("cuda:0") for k, v in batch.items()}
    with torch.no_grad():
        print(F.softmax(model(**batch)[:, -1], -1).argmax(-1).tolist())
