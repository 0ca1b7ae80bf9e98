# cause: generation-helper-on-wrong-device
# guilty: self.bias
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


class KeywordBias(LogitsProcessor):
    """Raises some token ids and forbids others."""

    def __init__(self, vocab_size, boost, banned, strength=2.0):
        self.bias = torch.zeros(vocab_size)
        self.bias[torch.tensor(boost)] = strength
        self.bias[torch.tensor(banned)] = float("-inf")

    def __call__(self, input_ids, scores):
        return scores + self.bias


class NoImmediateRepeat(LogitsProcessor):
    def __call__(self, input_ids, scores):
        last = input_ids[:, -1:]
        return scores.scatter(1, last, torch.full_like(last, -1e4, dtype=scores.dtype))


def build(device):
    torch.manual_seed(0)
    cfg = GPT2Config(vocab_size=90, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                     bos_token_id=0, eos_token_id=1, pad_token_id=2)
    return GPT2LMHeadModel(cfg).to(device).eval()


def main():
    device = torch.device("cuda")
    model = build(device)
    prompts = torch.randint(3, 90, (3, 6))
    mask = torch.ones_like(prompts)
    processors = LogitsProcessorList([
        NoImmediateRepeat(),
        KeywordBias(90, boost=[10, 11, 12], banned=[1, 2]),
    ])
    out = model.generate(
        input_ids=prompts.to(device),
        attention_mask=mask.to(device),
        max_new_tokens=8,
        do_sample=False,
        logits_processor=processors,
    )
    for row in out.cpu().tolist():
        print(row)


if __name__ == "__main__":
    main()
