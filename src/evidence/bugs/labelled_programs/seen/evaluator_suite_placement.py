# cause: dispatched-model-moved
# guilty: model (self.model, model.to(self.device))
# line: 86
# repair: in Evaluator.__init__ leave a dispatched model where it is: self.model = model if hasattr(model, "hf_device_map") else model.to(self.device) OR dispatch in load_model without host layers and pass no device
"""Evaluation harness for language models that may be larger than the card."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model

LOADERS = {}
TASKS = {}


@dataclass
class EvalConfig:
    model: str = "big"
    tasks: tuple = ("perplexity", "last_token")
    device: str = "cuda:0"
    batches: int = 2


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.past = nn.Conv1d(dim, dim, 4)
        self.feed = nn.Linear(dim, dim)

    def forward(self, x):
        y = self.past(F.pad(self.norm(x).transpose(1, 2), (3, 0))).transpose(1, 2)
        return x + self.feed(F.silu(y))


class LM(nn.Module):
    def __init__(self, vocab=80, dim=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loader(name):
    return lambda fn: LOADERS.setdefault(name, fn)


@loader("small")
def load_small(config):
    return LM(depth=1)


@loader("big")
def load_big(config):
    return dispatch_model(LM(), device_map={"embed": "cuda:0", "blocks.0": "cuda:0", "blocks.1": "cuda:1",
                                            "blocks.2": "cpu", "head": "cuda:1"})


def task(name):
    return lambda fn: TASKS.setdefault(name, fn)


@task("perplexity")
def perplexity(logits, ids):
    nll = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    return math.exp(nll.item())


@task("last_token")
def last_token(logits, ids):
    return (logits[:, -2].argmax(-1) == ids[:, -1]).float().mean().item()


class Evaluator:
    def __init__(self, model, config):
        self.config = config
        self.device = torch.device(config.device)
        self.model = model.to(self.device)
        self.model.eval()

    @torch.inference_mode()
    def run(self, batches):
        totals = dict.fromkeys(self.config.tasks, 0.0)
        for ids in batches:
            ids = ids.to(self.device)
            logits = self.model(ids)
            for name in totals:
                totals[name] += TASKS[name](logits, ids)
        return {n: t / len(batches) for n, t in totals.items()}


if __name__ == "__main__":
    config = EvalConfig()
    torch.manual_seed(0)
    evaluator = Evaluator(LOADERS[config.model](config), config)
    print(evaluator.run([torch.randint(0, 80, (3, 12)) for _ in range(config.batches)]))
