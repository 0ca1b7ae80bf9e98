# cause: module-left-on-other-device|lm-head-or-tied-weight-split
# guilty: picked (self.value, self.value.weight, states)
# line: 45
# repair: build the value head on the device of the last norm (backbone.norm.weight.device) instead of on model.device, OR move the tapped states to the head: states.to(self.value.weight.device)
"""Reward model: a peft LoRA Llama cut over two cards with a value head on the final states."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def plan_for(config, first, second):
    plan = {"model.embed_tokens": first, "model.rotary_emb": first, "model.norm": second, "lm_head": second}
    half = config.num_hidden_layers // 2
    plan.update({f"model.layers.{i}": first if i < half else second for i in range(2 * half)})
    return plan


def load_base():
    config = LlamaConfig(vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False)
    return dispatch_model(LlamaForCausalLM(config), device_map=plan_for(config, "cuda:0", "cuda:1"))


class ValueProbe(nn.Module):
    """Reads the states behind the last norm through a hook, so that no copy of all states is kept."""

    def __init__(self, model):
        super().__init__()
        self.model, self.tapped = model, None
        backbone = model.get_base_model().model
        self.value = nn.Linear(model.config.hidden_size, 1, bias=False).to(model.device)
        backbone.norm.register_forward_hook(self._tap)

    def _tap(self, module, args, output):
        self.tapped = output

    def forward(self, input_ids, attention_mask):
        self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        states, self.tapped = self.tapped, None
        last = attention_mask.sum(1).to(states.device) - 1
        picked = states[torch.arange(states.size(0), device=states.device), last]
        return self.value(picked).squeeze(-1)


class PairTrainer:
    def __init__(self, probe, lr=1e-3):
        self.probe = probe
        self.optimizer = torch.optim.AdamW([p for p in probe.parameters() if p.requires_grad], lr=lr)

    def step(self, chosen, rejected):
        ids = torch.cat([chosen, rejected]).to("cuda:0")
        better, worse = self.probe(ids, (ids != 0).long()).chunk(2)
        loss = -F.logsigmoid(better - worse).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0)
    trainer = PairTrainer(ValueProbe(get_peft_model(load_base(), lora)))
    for _ in range(3):
        print(trainer.step(torch.randint(1, 90, (2, 8)), torch.randint(1, 90, (2, 8))))
