# cause: module-left-on-other-device
# guilty: self.fc1 (self.fc1.weight, self.teacher, the weights of self.teacher)
# line: 27
# repair: place the hidden teacher in the builder: teacher.to(cfg["device"]) before or after build (build_student returns ...; student.teacher.to(device)) OR override _apply/to in Distilled to move self.teacher as well OR register the teacher as a sub-module (self.teacher = teacher) and leave it out of the state dict otherwise
import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {}


def register(name):
    def wrap(cls):
        MODELS[name] = cls
        return cls
    return wrap


@register("wide")
class WideNet(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc1 = nn.Linear(n_in, 128)
        self.fc2 = nn.Linear(128, n_out)

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        return self.fc2(h)


@register("slim")
class SlimNet(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.body = nn.Linear(n_in, 16)
        self.out = nn.Linear(16, n_out)

    def forward(self, x):
        return self.out(torch.tanh(self.body(x)))


@register("distilled")
class Distilled(nn.Module):
    """Student that carries its teacher, which must not appear in checkpoints."""

    def __init__(self, n_in, n_out, student, teacher, temperature=2.0):
        super().__init__()
        self.student = MODELS[student](n_in, n_out)
        frozen = MODELS[teacher](n_in, n_out).eval()
        for p in frozen.parameters():
            p.requires_grad_(False)
        object.__setattr__(self, "teacher", frozen)
        self.temperature = temperature

    def forward(self, x):
        return self.student(x)

    def loss(self, x, y, alpha=0.5):
        logits = self.student(x)
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.temperature, dim=-1)
        kd = F.kl_div(F.log_softmax(logits / self.temperature, -1), soft, reduction="batchmean")
        return alpha * kd + (1 - alpha) * F.cross_entropy(logits, y)


def build(cfg):
    cls = MODELS[cfg["type"]]
    model = cls(**cfg["args"])
    return model.to(cfg["device"])


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = build(cfg["model"])
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg["lr"], momentum=0.9)

    def batches(self):
        dev = self.cfg["model"]["device"]
        for _ in range(self.cfg["steps"]):
            x = torch.randn(32, 10)
            yield x.to(dev), (x[:, 0] > 0).long().to(dev)

    def train(self):
        for i, (x, y) in enumerate(self.batches()):
            loss = self.model.loss(x, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            print(i, loss.item())


if __name__ == "__main__":
    args = dict(n_in=10, n_out=2, student="slim", teacher="wide")
    Runner({"model": {"type": "distilled", "args": args, "device": "cuda:0"}, "lr": 0.1, "steps": 3}).train()
