# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices|cache-or-beam-state-on-wrong-device
# guilty: classifier (zeroshot_weights or text_features or self.classifier)
"""Zero-shot image classification with the two towers on two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = ["cat", "dog", "truck", "plane"]
TEMPLATES = ["a photo of a {}", "a drawing of a {}"]


def tokenize(texts, length=24):
    out = torch.zeros(len(texts), length, dtype=torch.long)
    for row, text in zip(out, texts):
        codes = torch.tensor([ord(c) % 96 for c in text])[:length]
        row[: len(codes)] = codes
    return out


class TwoTower(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.visual = nn.Sequential(nn.Conv2d(3, d, 8, 8), nn.Flatten(2))
        self.vproj = nn.Linear(d, d)
        self.text = nn.EmbeddingBag(96, d)
        self.tproj = nn.Linear(d, d)
        self.logit_scale = nn.Parameter(torch.tensor(4.6))

    def place(self, vision, text):
        self.vision_device, self.text_device = torch.device(vision), torch.device(text)
        self.visual.to(vision), self.vproj.to(vision)
        self.text.to(text), self.tproj.to(text)
        return self

    def encode_image(self, img):
        return F.normalize(self.vproj(self.visual(img.to(self.vision_device)).mean(-1)), dim=-1)

    def encode_text(self, ids):
        return F.normalize(self.tproj(self.text(ids.to(self.text_device))), dim=-1)


def zeroshot_classifier(model, classes, templates):
    weights = []
    for name in classes:
        emb = model.encode_text(tokenize([t.format(name) for t in templates])).mean(0)
        weights.append(emb / emb.norm())
    return torch.stack(weights, dim=1)


@torch.no_grad()
def evaluate(model, batches):
    classifier = zeroshot_classifier(model, CLASSES, TEMPLATES)
    hit = n = 0
    for img, y in batches:
        feats = model.encode_image(img)
        logits = model.logit_scale.exp() * feats @ classifier
        hit += (logits.argmax(1).cpu() == y).sum().item()
        n += len(y)
    return hit / n


batches = [(torch.randn(4, 3, 32, 32), torch.randint(0, 4, (4,))) for _ in range(2)]
print(evaluate(TwoTower().place("cuda:0", "cuda:1"), batches))
