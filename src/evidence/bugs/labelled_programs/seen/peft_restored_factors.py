# cause: adapter-weights-on-other-device|hard-coded-device|checkpoint-map-location
# guilty: lora_A (lora_A.weight, module.lora_A["default"].weight, the restored factors of layer 1)
# line: 51
# repair: in restore_factors put each factor on the device of the layer it belongs to: nn.Parameter(saved[...].to(module.base_layer.weight.device)) OR copy into the existing parameter (module.lora_A["default"].weight.data.copy_(...)) in place of replacing it
"""Continue LoRA fine-tuning of a dispatched Llama from our own compact factor file."""
import os
import tempfile

import torch
import torch.nn as nn
from accelerate import dispatch_model
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DEVICE_MAP = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0",
              "model.layers.1": "cuda:1", "model.norm": "cuda:1", "lm_head": "cuda:1"}


def build():
    config = LlamaConfig(vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         use_cache=False)
    torch.manual_seed(0)
    base = dispatch_model(LlamaForCausalLM(config), device_map=DEVICE_MAP)
    return get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))


def lora_layers(model):
    return [(n, m) for n, m in model.named_modules() if hasattr(m, "lora_A") and "default" in m.lora_A]


def save_factors(model, path):
    factors = {}
    for name, module in lora_layers(model):
        factors[name] = {"A": module.lora_A["default"].weight.detach().half().cpu(),
                         "B": module.lora_B["default"].weight.detach().half().cpu()}
    torch.save(factors, path)


def restore_factors(model, path):
    saved = torch.load(path, map_location="cuda:0")
    for name, module in lora_layers(model):
        module.lora_A["default"].weight = nn.Parameter(saved[name]["A"].float())
        module.lora_B["default"].weight = nn.Parameter(saved[name]["B"].float())


def train(model, steps):
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(steps):
        ids = torch.randint(0, 90, (2, 10), device="cuda:0")
        loss = model(input_ids=ids, labels=ids).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "factors.pt")
        save_factors(build(), path)
        resumed = build()
        restore_factors(resumed, path)
        print("resumed", train(resumed, 2))


main()
