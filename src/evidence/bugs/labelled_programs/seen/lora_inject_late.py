# cause: adapter-weights-on-other-device
# guilty: self.lora_a
import math

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int, alpha: float):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.empty(base.in_features, r))
        self.lora_b = nn.Parameter(torch.zeros(r, base.out_features))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.scaling = alpha / r

    def forward(self, x):
        y = self.base(x)
        low = torch.matmul(x, self.lora_a)
        return y + self.scaling * torch.matmul(low, self.lora_b)


def inject(model, names=("q_proj", "v_proj"), r=4, alpha=8.0):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, r, alpha))
    return [p for n, p in model.named_parameters() if "lora_" in n]


def main():
    torch.manual_seed(0)
    cfg = LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )
    device = "cuda:1"
    model = AutoModelForCausalLM.from_config(cfg).to(device)
    model.requires_grad_(False)
    trainable = inject(model)
    opt = torch.optim.AdamW(trainable, lr=1e-4)
    for _ in range(2):
        ids = torch.randint(0, 100, (2, 16), device=device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(loss.item())


main()
