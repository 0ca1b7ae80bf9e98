# cause: generation-helper-on-wrong-device
# guilty: free (logits)
# line: 37
# repair: in PlainModelGuidance.__call__ bring the second model's scores over, free = ....to(scores.device) OR put both models on one card in main
"""Sampling that is steered away from what a second, plain model would say."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList

VOCAB = 96


def tiny_gpt2(seed, layers=2):
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=layers, n_head=4,
                        bos_token_id=0, eos_token_id=1, pad_token_id=1)
    return GPT2LMHeadModel(config).eval()


class PlainModelGuidance(LogitsProcessor):
    """Moves the scores away from those of a model that has seen no instruction."""

    def __init__(self, plain, skip, strength=1.5):
        self.plain = plain
        self.skip = skip
        self.strength = strength

    def _plain_scores(self, input_ids):
        tail = input_ids[:, self.skip:].to(self.plain.device)
        if tail.shape[1] == 0:
            tail = torch.zeros(len(input_ids), 1, dtype=torch.long, device=self.plain.device)
        with torch.no_grad():
            return self.plain(input_ids=tail).logits[:, -1].float()

    def __call__(self, input_ids, scores):
        scores = scores.log_softmax(-1)
        free = self._plain_scores(input_ids).log_softmax(-1)
        return free + self.strength * (scores - free)


class FewRepeats(LogitsProcessor):
    def __init__(self, weight=0.5):
        self.weight = weight

    def __call__(self, input_ids, scores):
        counts = torch.zeros_like(scores).scatter_add_(
            1, input_ids, torch.ones_like(input_ids, dtype=scores.dtype))
        return scores - self.weight * counts


class Storyteller:
    def __init__(self, main_model, plain_model):
        self.model, self.plain = main_model, plain_model

    def tell(self, instruction, opening, new_tokens=6):
        ids = torch.tensor([instruction + opening], device=self.model.device)
        processors = LogitsProcessorList([
            FewRepeats(), PlainModelGuidance(self.plain, skip=len(instruction))])
        out = self.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True,
                                  max_new_tokens=new_tokens, logits_processor=processors)
        return out[0, len(instruction):].tolist()


def main():
    tuned = tiny_gpt2(seed=0, layers=3).to("cuda:0")
    plain = tiny_gpt2(seed=1).to("cuda:1")
    teller = Storyteller(tuned, plain)
    torch.manual_seed(7)
    for opening in ([10, 11, 12], [40, 41]):
        print(teller.tell([5, 6, 7, 8], opening))


if __name__ == "__main__":
    main()
