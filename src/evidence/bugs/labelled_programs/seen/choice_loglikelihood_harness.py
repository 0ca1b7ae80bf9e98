# cause: loss-or-label-on-other-device
# guilty: cont (cont.unsqueeze, continuation)
# line: 52
# repair: in HarnessLM.loglikelihood send the continuation ids to the device of the logits (cont = ....to(logp.device)) instead of self.device
"""Evaluation harness: adapters turn a model into log-likelihood answers, tasks count accuracy."""
import torch
import torch.nn as nn

MODELS, TASKS = {}, {}


def register_model(name):
    return lambda cls: MODELS.setdefault(name, cls)


def register_task(name):
    return lambda cls: TASKS.setdefault(name, cls)


class StackedGRU(nn.Module):
    """Every layer has its own card, hidden states hop from card to card."""

    def __init__(self, vocab=100, dim=24, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.layers = nn.ModuleList(nn.GRU(dim, dim, batch_first=True).to(c) for c in cards)
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x, _ = layer(x.to(layer.weight_hh_l0.device))
        return self.head(x)


@register_model("stacked")
class HarnessLM:
    def __init__(self, **options):
        self.model = StackedGRU(**options).eval()

    @property
    def device(self):
        return next(self.model.parameters()).device

    @torch.no_grad()
    def loglikelihood(self, requests):
        answers = []
        for context, continuation in requests:
            ids = torch.tensor([context + continuation], device=self.device)
            cont = torch.tensor(continuation, device=self.device)
            logp = self.model(ids[:, :-1]).log_softmax(-1)[0, -len(continuation):]
            scores = logp.gather(1, cont.unsqueeze(1)).squeeze(1)
            greedy = bool((logp.argmax(-1).cpu() == cont.cpu()).all())
            answers.append((scores.sum().item(), greedy))
        return answers


@register_task("copa_like")
class Copa:
    docs = [([5, 6, 7], [[8, 9], [40, 41, 42]], 0), ([11, 12], [[30], [13, 14]], 1)]

    def requests(self):
        return [(ctx, choice) for ctx, choices, _ in self.docs for choice in choices]

    def score(self, answers):
        right, at = 0, 0
        for _, choices, gold in self.docs:
            part = [a[0] / len(c) for a, c in zip(answers[at:at + len(choices)], choices)]
            at += len(choices)
            right += part.index(max(part)) == gold
        return {"acc": right / len(self.docs)}


def evaluate(model, task, **options):
    lm, bench = MODELS[model](**options), TASKS[task]()
    return bench.score(lm.loglikelihood(bench.requests()))


if __name__ == "__main__":
    torch.manual_seed(0)
    print(evaluate("stacked", "copa_like", dim=16))
