# cause: generation-helper-on-wrong-device
# guilty: self.shift
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList

torch.manual_seed(22)
VOCAB = 48


class Nudge(LogitsProcessor):
    """Makes some words more likely and others nearly impossible."""

    def __init__(self, liked, hated, size):
        self.shift = torch.zeros(size)
        self.shift[liked] = 2.0
        self.shift[hated] = -50.0

    def __call__(self, input_ids, scores):
        return scores + self.shift


cfg = GPT2Config(vocab_size=VOCAB, n_positions=32, n_embd=16, n_layer=2, n_head=2,
                 bos_token_id=0, eos_token_id=1, pad_token_id=1)
device = torch.device("cuda:0")
model = GPT2LMHeadModel(cfg).to(device).eval()

prompt = torch.tensor([[0, 12, 13, 14], [0, 22, 23, 24]], device=device)
keep = torch.ones_like(prompt)
extra = LogitsProcessorList([Nudge(liked=[7, 8, 9], hated=[30, 31], size=VOCAB)])

with torch.no_grad():
    made = model.generate(
        prompt,
        attention_mask=keep,
        logits_processor=extra,
        do_sample=True,
        top_k=10,
        temperature=0.8,
        max_new_tokens=6,
    )
print(made.tolist())
