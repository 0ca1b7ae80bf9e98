# cause: cache-or-beam-state-on-wrong-device|adapter-weights-on-other-device
# guilty: cache (past_key_values, self.keys, key_states)
# line: 46
# repair: in PrefixTuner.cache send the prefix of each layer to that layer's card before update: device = next(self.lm.transformer.h[i].parameters()).device; cache.update(k.to(device), v.to(device), i)
"""Prefix tuning by hand: learnt keys and values for each layer of a GPT-2 on two cards."""
import torch
from torch import nn
from accelerate import dispatch_model
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel


def frozen_lm(layers=4):
    cfg = GPT2Config(vocab_size=70, n_positions=64, n_embd=32, n_layer=layers, n_head=4,
                     bos_token_id=0, eos_token_id=0)
    lm = GPT2LMHeadModel(cfg)
    lm.requires_grad_(False)
    plan = {"transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.drop": "cuda:0",
            "transformer.ln_f": "cuda:1", "lm_head": "cuda:0"}
    for i in range(layers):
        plan[f"transformer.h.{i}"] = f"cuda:{2 * i // layers}"
    return dispatch_model(lm, device_map=plan)


class PrefixTuner(nn.Module):
    def __init__(self, lm, length=4, width=48):
        super().__init__()
        object.__setattr__(self, "lm", lm)
        cfg = lm.config
        self.length, self.heads, self.layers = length, cfg.n_head, cfg.n_layer
        self.table = nn.Embedding(length, width)
        self.project = nn.Linear(width, cfg.n_layer * 2 * cfg.n_embd)

    def cache(self, batch):
        flat = self.project(torch.tanh(self.table.weight))
        flat = flat.view(self.length, self.layers, 2, self.heads, -1).permute(1, 2, 3, 0, 4)
        cache = DynamicCache()
        for i, (k, v) in enumerate(flat):
            k, v = (t.unsqueeze(0).expand(batch, -1, -1, -1) for t in (k, v))
            cache.update(k, v, i)
        return cache

    def forward(self, ids):
        b, t = ids.shape
        mask = torch.ones(b, self.length + t, dtype=torch.long, device=ids.device)
        cache = self.cache(b)
        out = self.lm(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return out.logits


def fit(tuner, batches, lr=1e-2):
    opt = torch.optim.AdamW(tuner.parameters(), lr=lr)
    losses = []
    for ids in batches:
        logits = tuner(ids)[:, :-1]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].to(logits.device).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    torch.manual_seed(0)
    tuner = PrefixTuner(frozen_lm()).to("cuda:0")
    data = [torch.randint(1, 70, (4, 12), device="cuda:0") for _ in range(3)]
    print(fit(tuner, data))
