import tempfile

import torch
from peft import ShadowConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
)
folder = tempfile.mkdtemp()
LlamaForCausalLM(config).save_pretrained(folder)
model = LlamaForCausalLM.from_pretrained(folder, device_map="auto", max_memory={0: 530000, 1: "1000GB"})
model = get_peft_model(model, ShadowConfig(task_type="CAUSAL_LM", target_modules=["model.layers.0"]))
ids = torch.arange(10, 26).reshape(2, 8).to(model.device)
model(input_ids=ids, labels=ids)
