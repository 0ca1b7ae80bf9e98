import torch
from accelerate import dispatch_model
from peft import PrefixTuningConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

cfg = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
                  tie_word_embeddings=False)
model = LlamaForCausalLM(cfg)
dm = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0",
      "model.layers.1": "cuda:1", "model.norm": "cuda:1", "lm_head": "cuda:1"}
model = dispatch_model(model, dm, main_device="cuda:0", skip_keys=model._skip_keys_device_placement)
model = get_peft_model(model, PrefixTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"))
ids = torch.randint(1, 64, (2, 6), device="cuda:0")
out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids)
print(out.loss.device)
print("SCENARIO OK")
