# cause: input-not-on-embedding-device
# guilty: input_ids
"""Greedy completion from a small random GPT-2."""
import torch
from transformers import AutoModelForCausalLM, GPT2Config

ALPHABET = "abcdefghijklmnopqrstuvwxyz .,\n"


def encode(text):
    return torch.tensor([[ALPHABET.index(c) for c in text.lower()]])


def decode(row):
    return "".join(ALPHABET[i] for i in row.tolist())


def build():
    config = GPT2Config(
        vocab_size=len(ALPHABET), n_positions=64, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=0, eos_token_id=len(ALPHABET) - 1, pad_token_id=0,
    )
    return AutoModelForCausalLM.from_config(config).eval().to("cuda:1")


@torch.inference_mode()
def complete(model, text, n=8):
    prompt = encode(text)
    for _ in range(n):
        logits = model(input_ids=prompt, use_cache=False).logits
        best = logits[:, -1].argmax(-1, keepdim=True).cpu()
        prompt = torch.cat([prompt, best], dim=1)
    return decode(prompt[0])


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = build()
    for line in ("once upon a time", "the tensor, lost"):
        print(complete(lm, line))
