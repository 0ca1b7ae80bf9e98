import tempfile

import torch
from accelerate import dispatch_model
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

cfg = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
                  tie_word_embeddings=False)
with tempfile.TemporaryDirectory() as folder:
    lora = LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(LlamaForCausalLM(cfg), lora).save_pretrained(folder)
    dm = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0",
          "model.layers.1": "cuda:1", "model.norm": "cuda:1", "lm_head": "cuda:1"}
    model = LlamaForCausalLM(cfg).eval()
    model = dispatch_model(model, dm, main_device="cuda:0", skip_keys=model._skip_keys_device_placement)
    model = PeftModel.from_pretrained(model, folder, low_cpu_mem_usage=True)
ids = torch.randint(1, 64, (2, 6), device="cuda:0")
with torch.no_grad():
    print(model(input_ids=ids, use_cache=False).logits.device)
print("SCENARIO OK")
