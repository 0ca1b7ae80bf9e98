# cause: module-left-on-other-device|lm-head-or-tied-weight-split
# guilty: self.v_head (hidden)
"""Reward/critic model: LoRA on a dispatched Llama plus a linear value head, as used for PPO."""
import tempfile

import torch
import torch.nn as nn
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS = 4


def load_base():
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    folder = tempfile.mkdtemp()
    LlamaForCausalLM(config).save_pretrained(folder)
    device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    device_map.update({f"model.layers.{i}": int(i >= LAYERS // 2) for i in range(LAYERS)})
    return LlamaForCausalLM.from_pretrained(folder, device_map=device_map)


class CriticModel(nn.Module):
    def __init__(self, base):
        super().__init__()
        last_layer = base.model.layers[-1]
        head_device = next(last_layer.parameters()).device
        lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        self.backbone = get_peft_model(base, lora)
        self.v_head = nn.Linear(base.config.hidden_size, 1).to(head_device)
        nn.init.normal_(self.v_head.weight, std=0.02)
        nn.init.zeros_(self.v_head.bias)

    def forward(self, input_ids, attention_mask):
        out = self.backbone(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
        hidden = out.hidden_states[-1]
        values = self.v_head(hidden).squeeze(-1)
        return values * attention_mask.to(values.device, values.dtype)


def pairwise_loss(values, attention_mask):
    last = attention_mask.sum(1).to(values.device) - 1
    rewards = values.gather(1, last.unsqueeze(1)).squeeze(1)
    chosen, rejected = rewards.chunk(2)
    return -nn.functional.logsigmoid(chosen - rejected).mean()


def main():
    torch.manual_seed(0)
    critic = CriticModel(load_base())
    critic.backbone.print_trainable_parameters()
    trainable = [p for p in critic.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)
    for step in range(2):
        ids = torch.randint(0, 128, (4, 12), device="cuda:0")
        mask = torch.ones_like(ids)
        mask[1, 9:] = 0
        loss = pairwise_loss(critic(ids, mask), mask)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
