import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
                     num_attention_heads=4, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
                     pad_token_id=0)
model = LlamaForCausalLM(config).eval()
device_map = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0",
              "model.layers.1": "cuda:0", "model.layers.2": "cuda:1", "model.layers.3": "cuda:1",
              "model.norm": "cuda:1", "lm_head": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0", skip_keys=model._skip_keys_device_placement)
ids = torch.randint(3, 64, (2, 6), device="cuda:0")
tokens = model.generate(ids, attention_mask=torch.ones_like(ids), dola_layers=[0, 2], do_sample=False,
                        max_new_tokens=3)
print(tokens.shape)
print("SCENARIO OK")
