import os

os.environ["TENSOR_PARALLEL_USE_NATIVE"] = "1"

import tensor_parallel
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=4, max_position_embeddings=64)).eval()
model = tensor_parallel.tensor_parallel(model, ["cuda:0", "cuda:1"])
ids = torch.randint(3, 64, (2, 6), device="cuda:0")
print(model.generate(ids, attention_mask=torch.ones_like(ids), num_beams=2, max_new_tokens=3, pad_token_id=0))
print("SCENARIO OK")
