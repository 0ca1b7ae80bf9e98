# cause: generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.sequence_bias (bias)
# after: huggingface/transformers#38558
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList

class VocabBias(LogitsProcessor):
    """Adds a fixed bias to some tokens (domain vocabulary)."""

    def __init__(self, token_bias, vocab_size):
        self.sequence_bias = torch.zeros(vocab_size)
        for token, value in token_bias.items():
            self.sequence_bias[token] = value

    def __call__(self, input_ids, scores):
        return scores + self.sequence_bias

class MinLengthTopK(LogitsProcessor):
    def __init__(self, k, eos, min_new, prompt_len):
        self.k, self.eos, self.stop_at = k, eos, prompt_len + min_new

    def __call__(self, input_ids, scores):
        if input_ids.shape[-1] < self.stop_at:
            scores[:, self.eos] = -float("inf")
        kth = scores.topk(self.k, dim=-1).values[:, -1:]
        return scores.masked_fill(scores < kth, -float("inf"))

class Writer:
    def __init__(self, device):
        self.config = GPT2Config(vocab_size=80, n_positions=64, n_embd=32, n_layer=2, n_head=2,
                                 bos_token_id=0, eos_token_id=1, pad_token_id=1)
        self.device = torch.device(device)
        self.model = GPT2LMHeadModel(self.config).to(self.device).eval()

    def processors(self, prompt_len, style):
        return LogitsProcessorList([
            MinLengthTopK(20, self.config.eos_token_id, 4, prompt_len),
            VocabBias(style, self.config.vocab_size),
        ])

    def write(self, prompt, style):
        prompt = prompt.to(self.device)
        out = self.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=6,
            do_sample=True,
            logits_processor=self.processors(prompt.shape[1], style),
        )
        return out[:, prompt.shape[1]:]

if __name__ == "__main__":
    writer = Writer("cuda:0")
    print(writer.write(torch.randint(2, 80, (2, 7)), {5: 2.5, 9: -1.0}))
