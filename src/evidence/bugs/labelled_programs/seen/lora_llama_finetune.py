# cause: adapter-weights-on-other-device
# guilty: self.lora_a
"""Finetune a sharded Llama with home-made LoRA layers."""
import math

import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


class LoraLinear(nn.Module):
    def __init__(self, base, rank, alpha, device):
        super().__init__()
        self.base = base
        self.scaling = alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features, device=device))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank, device=device))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x):
        out = self.base(x)
        low = F.linear(x, self.lora_a)
        return out + F.linear(low, self.lora_b) * self.scaling


def inject_lora(model, targets=("q_proj", "v_proj"), rank=4, alpha=8):
    device = next(model.parameters()).device
    for p in model.parameters():
        p.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                setattr(parent, name, LoraLinear(child, rank, alpha, device))
    return [p for p in model.parameters() if p.requires_grad]


def build():
    cfg = LlamaConfig(vocab_size=160, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = LlamaForCausalLM(cfg)
    device_map = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0"}
    for i in range(cfg.num_hidden_layers):
        device_map[f"model.layers.{i}"] = "cuda:0" if i < 2 else "cuda:1"
    device_map.update({"model.norm": "cuda:1", "lm_head": "cuda:1"})
    return dispatch_model(model, device_map=device_map)


def main():
    torch.manual_seed(0)
    model = build()
    trainable = inject_lora(model)
    optimizer = torch.optim.AdamW(trainable, lr=1e-3)
    for _ in range(3):
        ids = torch.randint(0, 160, (2, 12)).to("cuda:0")
        logits = model(input_ids=ids, use_cache=False).logits
        labels = ids[:, 1:].to(logits.device)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", float(loss))


if __name__ == "__main__":
    main()
