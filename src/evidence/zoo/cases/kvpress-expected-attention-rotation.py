import torch
from accelerate import dispatch_model
from kvpress import ExpectedAttentionPress
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
model = LlamaForCausalLM(config).eval()
model = dispatch_model(model, {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0,
                               "model.layers.1": 1, "model.norm": 1, "lm_head": 1}, main_device="cuda:0")
press = ExpectedAttentionPress(compression_ratio=0.5, n_future_positions=16)
ids = torch.randint(0, 64, (1, 16), device="cuda:0")
cache = DynamicCache()
with torch.no_grad(), press(model):
    model(ids, past_key_values=cache)
print(cache.get_seq_length())
print("SCENARIO OK")
