# cause: loss-or-label-on-other-device
# guilty: targets (continuation, request.continuation, index)
# line: 66
# repair: move the continuation with the rest in ChoiceScorer.score (targets = torch.tensor(request.continuation, device=row.device).unsqueeze(-1)) OR log_probs.cpu() before the gather
"""Multiple choice by likelihood over a language model that two cards share."""
import tempfile
from dataclasses import dataclass

import torch
from transformers import GPT2Config, GPT2LMHeadModel


@dataclass
class Request:
    context: list
    continuation: list


def gpt2_map(layers):
    plan = {"transformer.wte": 0, "transformer.wpe": 0, "transformer.ln_f": 1, "lm_head": 0}
    plan.update({f"transformer.h.{i}": 0 if i < layers // 2 else 1 for i in range(layers)})
    return plan


def load_model():
    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=4, n_head=4,
                        bos_token_id=0, eos_token_id=0)
    with tempfile.TemporaryDirectory() as folder:
        GPT2LMHeadModel(config).save_pretrained(folder)
        return GPT2LMHeadModel.from_pretrained(folder, device_map=gpt2_map(4)).eval()


class Task:
    name = "colours"
    items = [("the sky is", ["blue", "a cow"], 0), ("grass is", ["loud", "green", "late"], 1)]

    def encode(self, text):
        return [1 + ord(c) % 99 for c in text]

    def requests(self):
        for question, choices, gold in self.items:
            yield [Request(self.encode(question), self.encode(" " + c)) for c in choices], gold


class ChoiceScorer:
    def __init__(self, model, device, pad_id=0):
        self.model = model
        self.device = device
        self.pad_id = pad_id

    def pad(self, requests):
        rows = [r.context + r.continuation for r in requests]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [self.pad_id] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        return ids.to(self.device), mask.to(self.device)

    @torch.no_grad()
    def score(self, requests):
        ids, mask = self.pad(requests)
        log_probs = self.model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
        scores = []
        for row, request in zip(log_probs, requests):
            start = len(request.context) - 1
            targets = torch.tensor(request.continuation).unsqueeze(-1)
            picked = row[start:start + len(request.continuation)].gather(-1, targets)
            scores.append(picked.sum() / len(request.continuation))
        return torch.stack(scores)


class Harness:
    def __init__(self, scorer):
        self.scorer = scorer
        self.results = {}

    def run(self, task):
        hits = []
        for requests, gold in task.requests():
            scores = self.scorer.score(requests)
            hits.append(int(scores.argmax()) == gold)
        self.results[task.name] = sum(hits) / len(hits)
        return self.results


if __name__ == "__main__":
    torch.manual_seed(0)
    harness = Harness(ChoiceScorer(load_model(), "cuda:0"))
    print(harness.run(Task()))
