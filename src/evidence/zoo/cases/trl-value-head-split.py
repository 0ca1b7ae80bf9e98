import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from trl import AutoModelForCausalLMWithValueHead

folder = tempfile.mkdtemp()
GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=2, n_head=2)).save_pretrained(
    folder, safe_serialization=False
)
device_map = {"transformer.wte": 0, "transformer.wpe": 0, "transformer.drop": 0, "transformer.h.0": 0,
              "transformer.h.1": 1, "transformer.ln_f": 1, "lm_head": 0}
policy = AutoModelForCausalLMWithValueHead.from_pretrained(folder, device_map=device_map)
ids = torch.randint(64, (2, 8), device="cuda:0")
logits, _, values = policy(ids, attention_mask=torch.ones_like(ids))
print(logits.shape, values.shape)
print("SCENARIO OK")
