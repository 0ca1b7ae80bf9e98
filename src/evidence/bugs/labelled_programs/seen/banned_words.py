# cause: generation-helper-on-wrong-device
# guilty: self.penalty
import torch
from transformers import AutoModelForCausalLM, GPTNeoXConfig, LogitsProcessor, LogitsProcessorList


class SoftBan(LogitsProcessor):
    """Lowers the scores of unwanted tokens by a fixed amount each."""

    def __init__(self, vocab_size, weights):
        self.penalty = torch.zeros(vocab_size)
        for token, weight in weights.items():
            self.penalty[token] = weight

    def __call__(self, input_ids, scores):
        return torch.sub(scores, self.penalty)


def load():
    cfg = GPTNeoXConfig(
        vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )
    return AutoModelForCausalLM.from_config(cfg).eval()


def answer(model, prompt, weights):
    processors = LogitsProcessorList([SoftBan(model.config.vocab_size, weights)])
    return model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=5,
        do_sample=False, logits_processor=processors,
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    model = load().to("cuda:0")
    prompt = torch.randint(2, 120, (2, 7), device=model.device)
    print(answer(model, prompt, {5: 10.0, 17: 4.0}))
