# cause: generation-helper-on-wrong-device
# guilty: self.allowed
"""Constrain generation to the transitions of a small grammar."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


class TransitionTable(LogitsProcessor):
    """allowed[a, b] tells whether token b may follow token a."""

    def __init__(self, allowed, penalty=float("-inf")):
        self.allowed = allowed
        self.penalty = penalty

    @classmethod
    def from_rules(cls, rules, vocab, **kwargs):
        allowed = torch.zeros(vocab, vocab, dtype=torch.bool)
        for left, rights in rules.items():
            allowed[left, torch.tensor(rights)] = True
        allowed[allowed.sum(1) == 0] = True
        return cls(allowed, **kwargs)

    def __call__(self, input_ids, scores):
        keep = self.allowed[input_ids[:, -1]]
        blocked = torch.full_like(scores, self.penalty)
        return torch.where(keep, scores, blocked)


class Generator:
    def __init__(self, device):
        cfg = GPT2Config(vocab_size=30, n_positions=48, n_embd=32, n_layer=2, n_head=4,
                         bos_token_id=0, eos_token_id=29)
        self.model = GPT2LMHeadModel(cfg).to(device).eval()
        rules = {i: [(i + 1) % 29, (i + 2) % 29] for i in range(29)}
        self.processors = LogitsProcessorList([TransitionTable.from_rules(rules, 30)])

    def __call__(self, prompts, length=8):
        ids = torch.tensor(prompts).to(self.model.device)
        out = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), logits_processor=self.processors,
            max_new_tokens=length, do_sample=False, pad_token_id=29)
        return out.cpu().tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    for row in Generator("cuda:0")([[0, 1, 2], [4, 5, 7]]):
        print(row)
