# cause: offload-hook-bypassed
# guilty: self.norm.weight (weight, module.weight)
# line: 24
# repair: call the module (h = self.norm(x)) so that its hook loads the weight, instead of rms_norm(x, self.norm.weight, ...) in Layer.forward OR give the weight to Layer itself OR do not offload that block in the plan
"""Text classifier, last layers kept in host memory and streamed to the card."""
import torch
from accelerate import dispatch_model
from torch import nn


class Scale(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


def rms_norm(x, weight, eps):
    variance = x.pow(2).mean(-1, keepdim=True)
    normed = x * torch.rsqrt(variance + eps)
    return normed * weight


class Layer(nn.Module):
    def __init__(self, width, fused):
        super().__init__()
        self.fused = fused
        self.norm = Scale(width)
        self.gate = nn.Linear(width, 2 * width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        if self.fused:
            # one call less per layer
            h = rms_norm(x, self.norm.weight, self.norm.eps)
        else:
            h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Classifier(nn.Module):
    def __init__(self, vocab=150, width=32, depth=4, classes=3, fused=True):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList([Layer(width, fused) for _ in range(depth)])
        self.final = Scale(width)
        self.out = nn.Linear(width, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.final(x).mean(1))


class OffloadPlan:
    def __init__(self, resident):
        self.resident = resident

    def for_model(self, model):
        plan = {"embed": 0, "final": 0, "out": 0}
        for i in range(len(model.layers)):
            plan[f"layers.{i}"] = 0 if i < self.resident else "cpu"
        return plan


def predict(model, texts, vocab=150, length=10):
    rows = [[(ord(c) * 7) % vocab for c in text[:length].ljust(length)] for text in texts]
    ids = torch.tensor(rows, device="cuda:0")
    with torch.no_grad():
        return model(ids).argmax(-1).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    classifier = Classifier().eval()
    plan = OffloadPlan(resident=2).for_model(classifier)
    classifier = dispatch_model(classifier, device_map=plan, main_device=0)
    print(predict(classifier, ["good film", "bad sound", "who knows"]))
