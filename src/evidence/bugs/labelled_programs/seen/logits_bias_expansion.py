# cause: generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: bias (self.logits_bias)
# after: lllyasviel/Fooocus#2890, huggingface/transformers#38558
import math
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList

NEG = -8192.0

class PositiveWordsProcessor(LogitsProcessor):
    """Only words of a list may follow; the words used so far get blocked."""

    def __init__(self, vocab_size, allowed):
        self.logits_bias = torch.full((1, vocab_size), NEG, dtype=torch.float32)
        self.logits_bias[0, allowed] = 0

    def __call__(self, input_ids, scores):
        bias = self.logits_bias.clone()
        for token in input_ids[0].tolist():
            bias[0, token] = NEG
        bias[0, 11] = 0
        return scores + bias

class PromptExpansion:
    def __init__(self, device):
        cfg = GPT2Config(vocab_size=96, n_positions=80, n_embd=32, n_layer=2, n_head=4,
                         bos_token_id=1, eos_token_id=1)
        self.load_device = device
        self.model = GPT2LMHeadModel(cfg).eval()
        allowed = torch.randperm(96)[:60]
        self.processors = LogitsProcessorList([PositiveWordsProcessor(cfg.vocab_size, allowed)])

    def encode(self, prompt):
        return torch.tensor([[2 + ord(c) % 90 for c in prompt]])

    @torch.no_grad()
    def __call__(self, prompt, seed):
        if prompt == "":
            return ""
        self.model.to(self.load_device)
        torch.manual_seed(seed)
        input_ids = self.encode(prompt).to(self.load_device)
        current = input_ids.shape[1]
        target = 8 * int(math.ceil(current / 8.0)) + 4
        out = self.model.generate(
            input_ids=input_ids, attention_mask=torch.ones_like(input_ids), do_sample=True,
            top_k=20, max_new_tokens=target - current, pad_token_id=0,
            logits_processor=self.processors)
        return " ".join(str(t) for t in out[0].tolist())

def main():
    expansion = PromptExpansion(torch.device("cuda:0"))
    for seed, prompt in enumerate(["a castle", "a small red boat"]):
        print(expansion(prompt, seed))

if __name__ == "__main__":
    main()
