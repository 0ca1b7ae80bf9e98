# cause: generation-helper-on-wrong-device
# guilty: amateur (self.amateur_scores, weak)
# line: 25
# repair: return the amateur's log-probabilities on the device of the scores (weak = self.amateur_scores(input_ids).to(scores.device) in ContrastProcessor.__call__)
"""Contrastive decoding with transformers: expert on card 0, amateur on card 1."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


class ContrastProcessor(LogitsProcessor):
    """score = expert - strength * amateur, only among tokens the expert finds plausible."""

    def __init__(self, amateur, strength=0.5, plausible=0.1):
        self.amateur, self.strength, self.plausible = amateur, strength, plausible

    @torch.no_grad()
    def amateur_scores(self, ids):
        out = self.amateur(input_ids=ids.to(self.amateur.device), use_cache=False)
        return out.logits[:, -1].float().log_softmax(-1)

    def __call__(self, input_ids, scores):
        strong = scores.float().log_softmax(-1)
        limit = strong.max(-1, keepdim=True).values + torch.tensor(self.plausible).log()
        weak = self.amateur_scores(input_ids)
        mixed = (1 + self.strength) * strong - self.strength * weak
        return mixed.masked_fill(strong < limit, float("-inf"))


class TemperatureNotes(LogitsProcessor):
    """Writes down the entropy of each step."""

    def __init__(self):
        self.entropies = []

    def __call__(self, input_ids, scores):
        p = scores.softmax(-1)
        self.entropies.append(-(p * p.clamp_min(1e-9).log()).sum(-1).mean().item())
        return scores


PROCESSORS = {"contrast": ContrastProcessor, "notes": TemperatureNotes}


def make_model(device, layers, width):
    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=width, n_layer=layers, n_head=2,
                        bos_token_id=0, eos_token_id=99, pad_token_id=99)
    return GPT2LMHeadModel(config).to(device).eval()


class Generator:
    def __init__(self, expert, recipe):
        self.expert = expert
        self.processors = LogitsProcessorList(PROCESSORS[name](**options) for name, options in recipe)

    def __call__(self, prompts, new_tokens=8):
        ids = torch.tensor(prompts, device=self.expert.device)
        return self.expert.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens,
            do_sample=True, logits_processor=self.processors)


if __name__ == "__main__":
    torch.manual_seed(0)
    expert, amateur = make_model("cuda:0", 4, 32), make_model("cuda:1", 1, 16)
    generator = Generator(expert, [("notes", {}), ("contrast", {"amateur": amateur, "strength": 0.4})])
    print(generator([[5, 6, 7], [8, 9, 10]]).tolist())
    print(generator.processors[0].entropies)
