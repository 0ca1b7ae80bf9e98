# cause: offload-hook-bypassed|meta-tensor-not-materialized
# guilty: self.base.weight (base.weight)
# line: 51
# repair: merge with the real weight in hand: accelerate.utils.align_module_device(self.base, device) or the hook's weights_map, writing the result back into it OR merge before dispatch_model (or on a model loaded wholly on one device) and dispatch the merged model OR leave spilled layers unmerged
"""Fine-tuned tabular scorer: part of it is kept in host memory by accelerate, then the low-rank deltas are folded in."""
import torch
from accelerate import dispatch_model
from torch import nn

DEVICE = "cuda:0"


class ResidualStage(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.project = nn.Linear(dim, dim)

    def forward(self, h):
        return h + torch.relu(self.project(self.norm(h)))


class TabularScorer(nn.Module):
    def __init__(self, features=18, dim=40, depth=4):
        super().__init__()
        self.enter = nn.Linear(features, dim)
        self.stages = nn.ModuleList(ResidualStage(dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.enter(x)
        for stage in self.stages:
            h = stage(h)
        return self.score(h).squeeze(-1)


class LowRank(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.a = nn.Parameter(torch.randn(rank, base.in_features, device=DEVICE) * 0.05)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank, device=DEVICE))

    def forward(self, x):
        return self.base(x) + (x @ self.a.t() @ self.b.t()) * self.scale

    @torch.no_grad()
    def merged(self):
        delta = (self.b @ self.a) * self.scale
        weight = self.base.weight + delta
        self.base.weight = nn.Parameter(weight, requires_grad=False)
        return self.base


def load_scorer(resident=2):
    """The first stages stay on the card, the others are streamed in from the host when they run."""
    model = TabularScorer().requires_grad_(False)
    device_map = {"enter": DEVICE, "score": DEVICE}
    for i in range(len(model.stages)):
        device_map[f"stages.{i}"] = DEVICE if i < resident else "cpu"
    return dispatch_model(model, device_map=device_map, main_device=DEVICE)


def add_low_rank(model):
    for stage in model.stages:
        stage.project = LowRank(stage.project)
    return [stage.project for stage in model.stages]


def finetune(model, layers, steps=15):
    params = [p for layer in layers for p in (layer.a, layer.b)]
    optimizer = torch.optim.Adam(params, lr=1e-2)
    for step in range(steps):
        x = torch.randn(64, 18, device=DEVICE)
        target = (x[:, 0] * x[:, 1] > 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("last loss", round(loss.item(), 4))


def fold(model):
    for stage in model.stages:
        stage.project = stage.project.merged()
    return model


def main():
    torch.manual_seed(0)
    model = load_scorer()
    layers = add_low_rank(model)
    finetune(model, layers)
    model = fold(model).eval()
    with torch.no_grad():
        scores = model(torch.randn(5, 18, device=DEVICE)).sigmoid()
    print("scores", [round(s, 3) for s in scores.tolist()])


if __name__ == "__main__":
    main()
