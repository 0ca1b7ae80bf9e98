# cause: generation-helper-on-wrong-device
# guilty: self.cost
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList


class Discourage(LogitsProcessor):
    def __init__(self, vocab, words, by=5.0):
        self.cost = torch.zeros(vocab)
        self.cost[words] = by

    def __call__(self, input_ids, scores):
        return scores - self.cost


def build():
    cfg = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return LlamaForCausalLM(cfg).eval().to("cuda:1")


lm = build()
prompt = torch.randint(3, 96, (2, 7)).to(lm.device)
text = lm.generate(
    input_ids=prompt,
    attention_mask=torch.ones_like(prompt),
    max_new_tokens=5,
    do_sample=False,
    logits_processor=LogitsProcessorList([Discourage(96, [10, 11, 12])]),
)
print(text.tolist())
