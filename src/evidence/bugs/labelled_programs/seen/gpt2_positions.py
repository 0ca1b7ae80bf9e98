# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: position_ids
"""Scores left-padded prompts with a tiny GPT-2 (random weights). Card 0 serves another model, this one is on card 1."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

PAD = 0


def left_pad(seqs):
    width = max(len(s) for s in seqs)
    ids = torch.full((len(seqs), width), PAD)
    mask = torch.zeros(len(seqs), width, dtype=torch.long)
    for i, s in enumerate(seqs):
        ids[i, width - len(s):] = torch.tensor(s)
        mask[i, width - len(s):] = 1
    return ids, mask


def positions(mask):
    pos = mask.cumsum(dim=-1) - 1
    return pos.masked_fill(mask == 0, 0)


class Scorer:
    def __init__(self, device):
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2)
        config._attn_implementation = "eager"
        self.device = torch.device(device)
        self.model = GPT2LMHeadModel(config).to(self.device).eval()

    @torch.no_grad()
    def __call__(self, seqs):
        ids, mask = left_pad(seqs)
        position_ids = positions(mask)
        ids, mask = ids.to(self.device), mask.to(self.device)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=position_ids, use_cache=False)
        logp = out.logits[:, :-1].log_softmax(-1)
        picked = logp.gather(-1, ids[:, 1:, None]).squeeze(-1)
        valid = mask[:, 1:] * mask[:, :-1]
        return ((picked * valid).sum(1) / valid.sum(1)).cpu()


if __name__ == "__main__":
    score = Scorer("cuda:1")
    prompts = [[4, 8, 15, 16, 23, 42], [7, 7, 7], [1, 2, 3, 4]]
    for p, s in zip(prompts, score(prompts)):
        print(round(float(s), 4), p)
