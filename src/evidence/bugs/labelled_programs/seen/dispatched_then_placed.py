# cause: dispatched-model-moved
# guilty: model (self.model)
# line: 30
# repair: Harness.__init__ must not move a model that has an hf_device_map: drop `.to(device)` for dispatched models (move only when `getattr(model, "hf_device_map", None) is None`)
"""Small evaluation harness that accepts any classifier and places it itself."""
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Classifier(nn.Module):
    def __init__(self, dim=32, depth=3, classes=4):
        super().__init__()
        self.embed = nn.Embedding(100, dim)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids).mean(1)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Harness:
    TASKS = {}

    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)

    @classmethod
    def task(cls, name):
        def wrap(fn):
            cls.TASKS[name] = fn
            return fn
        return wrap

    @torch.no_grad()
    def run(self):
        return {name: fn(self.model, self.device) for name, fn in self.TASKS.items()}


@Harness.task("topic")
def topic(model, device):
    ids = torch.randint(0, 100, (8, 12), device=device)
    return model(ids).argmax(-1).float().mean().item()


@Harness.task("length")
def length(model, device):
    return sum(model(torch.randint(0, 100, (1, n), device=device)).max().item() for n in (3, 6, 9))


def load_spread(max_on_cards=2):
    """Blocks beyond what fits on the cards stay on the host."""
    model = Classifier().eval()
    plan = {"embed": "cuda:0", "head": "cuda:1"}
    for i in range(len(model.blocks)):
        plan[f"blocks.{i}"] = f"cuda:{i}" if i < max_on_cards else "cpu"
    return dispatch_model(model, device_map=plan, main_device="cuda:0")


if __name__ == "__main__":
    torch.manual_seed(0)
    print(Harness(load_spread(), "cuda:0").run())
