import tempfile

import torch
from peft import LoraConfig, XLoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, use_cache=False,
)
folder, adapter = tempfile.mkdtemp(), tempfile.mkdtemp()
LlamaForCausalLM(config).save_pretrained(folder)
lora = LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False)
get_peft_model(LlamaForCausalLM.from_pretrained(folder), lora).save_pretrained(adapter)
model = LlamaForCausalLM.from_pretrained(folder, device_map="auto", max_memory={0: 530000, 1: "1000GB"})
xlora = XLoraConfig(task_type="CAUSAL_LM", hidden_size=64, adapters={"0": adapter})
model = get_peft_model(model, xlora)
ids = torch.arange(10, 26).reshape(2, 8).to(model.device)
model(input_ids=ids)
