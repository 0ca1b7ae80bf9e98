# cause: generation-helper-on-wrong-device|hard-coded-device
# guilty: self.push
"""Menu writer: a small causal model that is nudged towards seasonal words while it generates."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


class Nudge(LogitsProcessor):
    """Adds a fixed amount to some words, less so the longer the text gets."""

    def __init__(self, words, vocab, amount, device):
        self.push = torch.zeros(vocab, device=device)
        self.push[list(words)] = amount

    def __call__(self, input_ids, scores):
        fade = 0.9 ** input_ids.shape[1]
        return scores + fade * self.push


class NoEcho(LogitsProcessor):
    """The last word may not come again at once."""

    def __call__(self, input_ids, scores):
        return scores.scatter(1, input_ids[:, -1:], float("-inf"))


def tiny_model(vocab=96):
    config = GPT2Config(
        vocab_size=vocab, n_positions=64, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )
    return GPT2LMHeadModel(config).eval()


class MenuBot:
    def __init__(self, model_card="cuda:1", device="cuda"):
        self.card = model_card
        self.model = tiny_model().to(model_card)
        vocab = self.model.config.vocab_size
        self.rules = LogitsProcessorList([NoEcho(), Nudge(range(20, 30), vocab, 3.0, device)])

    @torch.no_grad()
    def write(self, prompt, new=6):
        ids = torch.tensor([prompt], device=self.card)
        out = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False,
            logits_processor=self.rules,
        )
        return out[0, ids.shape[1]:].tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    bot = MenuBot()
    for prompt in ([5, 8, 13], [40, 41], [7]):
        print(prompt, "->", bot.write(prompt))
