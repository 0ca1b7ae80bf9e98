import torch
from transformers import FalconConfig, FalconForCausalLM

config = FalconConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                      bos_token_id=1, eos_token_id=2)
model = FalconForCausalLM(config).eval().to("cuda:0")
ids = torch.randint(3, 64, (2, 8))
with torch.no_grad():
    first = model(ids.to("cuda:0"), use_cache=False).logits
    model.to("cuda:1")
    second = model(ids.to("cuda:1"), use_cache=False).logits
print(first.shape, second.shape)
print("SCENARIO OK")
