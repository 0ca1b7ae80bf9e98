# cause: device-map-incomplete-or-wrong|block-split-across-devices
# guilty: self.norm.weight (self.norm, block.norm, block)
# line: 19
# repair: in place() match whole module names (name == prefix or name.startswith(prefix + ".")), so that "blocks.1" does not also catch blocks.10 and blocks.11 OR place the modules with model.get_submodule(prefix).to(card)
"""Retention-style language model, placed from a YAML-like plan; the runner hands the stream over card by card."""
import torch
import torch.nn as nn


class RetentionBlock(nn.Module):
    def __init__(self, dim, decay):
        super().__init__()
        self.decay = decay
        self.norm = nn.LayerNorm(dim)
        self.w_in = nn.Linear(dim, 3 * dim, bias=False)
        self.w_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.w_in(h).chunk(3, -1)
        steps = torch.arange(x.shape[1], device=x.device)
        gap = (steps[:, None] - steps[None, :]).clamp(min=0)
        weight = torch.where(steps[:, None] >= steps[None, :], self.decay ** gap.float(), 0.0)
        mixed = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5) * weight @ v
        return x + self.w_out(mixed)


class RetentionLM(nn.Module):
    def __init__(self, vocab=120, dim=24, depth=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(RetentionBlock(dim, 1 - 2.0 ** (-3 - i % 4)) for i in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)


def make_plan(model, cards):
    depth = len(model.blocks)
    plan = {"embed": cards[0]}
    for i in range(depth):
        plan[f"blocks.{i}"] = cards[i * len(cards) // depth]
    plan["norm"] = plan["head"] = cards[-1]
    return plan


def place(model, plan):
    tensors = list(model.named_parameters()) + list(model.named_buffers())
    for name, tensor in tensors:
        for prefix, card in plan.items():
            if name.startswith(prefix):
                tensor.data = tensor.data.to(card)
                break
        else:
            raise KeyError(f"{name} is not covered by the plan")
    return model


class Runner:
    def __init__(self, model, plan):
        self.model, self.plan = place(model, plan), plan

    def logits(self, ids):
        x = self.model.embed(ids.to(self.plan["embed"]))
        for i, block in enumerate(self.model.blocks):
            x = self.step(block, x.to(self.plan[f"blocks.{i}"]))
        return self.model.head(self.model.norm(x.to(self.plan["norm"])))

    def step(self, block, x):
        return block(x)

    def score(self, ids):
        logits = self.logits(ids)[:, :-1]
        target = ids[:, 1:].to(logits.device)
        return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).item()


def report(plan):
    cards = {}
    for name, card in plan.items():
        cards.setdefault(str(card), []).append(name)
    for card, names in cards.items():
        print(card, len(names), "modules, last:", names[-1])


def main():
    torch.manual_seed(0)
    model = RetentionLM().eval()
    plan = make_plan(model, [torch.device("cuda:0"), torch.device("cuda:1")])
    report(plan)
    runner = Runner(model, plan)
    with torch.inference_mode():
        for batch in range(3):
            ids = torch.randint(0, 120, (2, 16))
            print("batch", batch, "loss", round(runner.score(ids), 4))


if __name__ == "__main__":
    main()
