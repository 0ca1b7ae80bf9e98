# cause: generation-helper-on-wrong-device
# guilty: self.bias
"""Sampling with a token bias from a small causal LM loaded with device_map="auto"."""
import tempfile

import torch
from transformers import LogitsProcessor, LogitsProcessorList, Qwen2Config, Qwen2ForCausalLM

BANNED = [3, 17, 44, 90]
FAVOURED = {5: 1.5, 8: 0.75}


class TokenBiasProcessor(LogitsProcessor):
    """Adds a fixed bias to the next-token scores, -inf for banned tokens."""

    def __init__(self, vocab_size, banned, favoured, device):
        self.bias = torch.zeros(vocab_size, device=device)
        self.bias[torch.tensor(banned, device=device)] = float("-inf")
        for token, value in favoured.items():
            self.bias[token] += value

    def __call__(self, input_ids, scores):
        return scores + self.bias


class RepetitionWindow(LogitsProcessor):
    """Lowers the score of the tokens seen in the last few positions."""

    def __init__(self, window=8, penalty=1.2):
        self.window = window
        self.penalty = penalty

    def __call__(self, input_ids, scores):
        recent = input_ids[:, -self.window :]
        picked = scores.gather(1, recent)
        picked = torch.where(picked < 0, picked * self.penalty, picked / self.penalty)
        return scores.scatter(1, recent, picked)


def save_tiny_model():
    config = Qwen2Config(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=False,
    )
    folder = tempfile.mkdtemp()
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def build_processors(model):
    logits_device = model.lm_head.weight.device
    bias = TokenBiasProcessor(model.config.vocab_size, BANNED, FAVOURED, logits_device)
    return LogitsProcessorList([RepetitionWindow(), bias])


def main():
    torch.manual_seed(1)
    model = Qwen2ForCausalLM.from_pretrained(save_tiny_model(), device_map="auto")
    model.eval()
    print("placement:", getattr(model, "hf_device_map", None))
    prompt = torch.randint(6, 96, (2, 10), device=model.device)
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        logits_processor=build_processors(model),
        max_new_tokens=6,
        do_sample=True,
        temperature=0.9,
        pad_token_id=0,
    )
    for row in out[:, prompt.size(1) :].tolist():
        assert not set(row) & set(BANNED)
        print(row)


if __name__ == "__main__":
    main()
