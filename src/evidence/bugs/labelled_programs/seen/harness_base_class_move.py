# cause: dispatched-model-moved
# guilty: model (self.model)
# line: 40
# repair: the adapter must not move a model that accelerate placed: in BaseAdapter.__init__ skip the move when hasattr(model, "hf_device_map") (self.model = model) OR drop .to(self.device) and let the caller place the model
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model

TASKS = {}


def task(name):
    def wrap(fn):
        TASKS[name] = fn
        return fn
    return wrap


@task("copy")
def copy_task(n):
    for i in range(n):
        yield [i % 30, (i + 1) % 30, i % 30], [(i + 1) % 30]


@task("count")
def count_task(n):
    for i in range(n):
        yield [i % 30, (i + 1) % 30], [(i + 2) % 30, (i + 3) % 30]


class BaseAdapter:
    """What the harness asks of a model: a log-likelihood of a continuation."""

    def __init__(self, model, device="cuda:0", batch_size=1):
        self.device = torch.device(device)
        self.batch_size = batch_size
        self.model = model.to(self.device)
        self.model.eval()

    def loglikelihood(self, context, continuation):
        raise NotImplementedError


class CausalAdapter(BaseAdapter):
    @torch.no_grad()
    def loglikelihood(self, context, continuation):
        ids = torch.tensor([context + continuation], device=self.device)
        logp = F.log_softmax(self.model(ids[:, :-1]), dim=-1)
        span = logp[:, len(context) - 1:]
        target = ids[:, len(context):].to(span.device)
        return span.gather(-1, target.unsqueeze(-1)).sum().item()


class GruLM(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.first = nn.GRU(dim, dim, batch_first=True)
        self.second = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.first(self.embed(ids))[0]
        return self.head(self.second(h)[0])


class Harness:
    def __init__(self, adapter):
        self.adapter = adapter

    def run(self, names, n=5):
        for name in names:
            logps = [self.adapter.loglikelihood(c, t) for c, t in TASKS[name](n)]
            print(f"{name:8s} ppl {math.exp(-sum(logps) / len(logps)):.2f}")


def load_model():
    torch.manual_seed(0)
    plan = {"embed": "cuda:0", "first": "cuda:0", "second": "cpu", "head": "cuda:0"}
    return dispatch_model(GruLM(), device_map=plan, main_device="cuda:0")


if __name__ == "__main__":
    lm = load_model()
    Harness(CausalAdapter(lm, device="cuda:0")).run(["copy", "count"])
