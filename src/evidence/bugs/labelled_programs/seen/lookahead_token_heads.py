# cause: module-left-on-other-device|lm-head-or-tied-weight-split
# guilty: self.mix (self.mix.weight, x, hidden, self.out)
# line: 20
# repair: build the extra heads on the card of the last block (`model.lm_head.weight.device` / the map's last device) instead of model.device OR move hidden to the heads' device before the loop
"""Several heads guess the next tokens at once from the trunk of a causal language model."""
import tempfile

import torch
import torch.nn as nn
from transformers import Qwen2Config, Qwen2ForCausalLM


class GuessHead(nn.Module):
    def __init__(self, hidden, vocab):
        super().__init__()
        self.mix = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, vocab, bias=False)

    def forward(self, x):
        return self.out(x + nn.functional.silu(self.mix(x)))


class LookaheadModel(nn.Module):
    def __init__(self, base, guesses=3):
        super().__init__()
        self.base = base
        cfg = base.config
        self.heads = nn.ModuleList(GuessHead(cfg.hidden_size, cfg.vocab_size) for _ in range(guesses))
        self.heads.to(base.device)

    @torch.no_grad()
    def guess(self, ids):
        hidden = self.base.model(input_ids=ids).last_hidden_state[:, -1]
        first = self.base.lm_head(hidden).argmax(-1)
        rest = [head(hidden).argmax(-1) for head in self.heads]
        return [first.item()] + [r.item() for r in rest]


def two_card_map(n):
    plan = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0"}
    for i in range(n):
        plan[f"model.layers.{i}"] = "cuda:0" if i < n // 2 else "cuda:1"
    plan["model.norm"] = "cuda:1"
    plan["lm_head"] = "cuda:1"
    return plan


def load_base():
    cfg = Qwen2Config(vocab_size=80, hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
                      num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64,
                      bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
    with tempfile.TemporaryDirectory() as folder:
        Qwen2ForCausalLM(cfg).save_pretrained(folder)
        return Qwen2ForCausalLM.from_pretrained(folder, device_map=two_card_map(4)).eval()


if __name__ == "__main__":
    torch.manual_seed(2)
    model = LookaheadModel(load_base())
    ids = torch.tensor([[4, 8, 15, 16, 23, 42]], device="cuda:0")
    while ids.shape[1] < 14:
        ids = torch.cat([ids, torch.tensor([model.guess(ids)], device=ids.device)], dim=1)
    print(ids.tolist())
