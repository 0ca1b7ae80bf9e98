import tempfile

import torch
from peft import EvaConfig, LoraConfig, get_peft_model, initialize_lora_eva_weights
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
)
folder = tempfile.mkdtemp()
LlamaForCausalLM(config).save_pretrained(folder)
model = LlamaForCausalLM.from_pretrained(folder, device_map="auto", max_memory={0: 530000, 1: "1000GB"})
eva = LoraConfig(r=4, target_modules=["o_proj"], init_lora_weights="eva", eva_config=EvaConfig(rho=2))
model = get_peft_model(model, eva)
data = [{"input_ids": torch.randint(512, (2, 16)).to(model.device)} for _ in range(4)]
initialize_lora_eva_weights(model, data)
[each for name, each in model.named_parameters() if "lora_A" in name]
