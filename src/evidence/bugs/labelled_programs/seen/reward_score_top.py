# cause: module-left-on-other-device|lm-head-or-tied-weight-split|device-map-incomplete-or-wrong
# guilty: self.score (self.score.weight, hidden)
# line: 42
# repair: place the head where the backbone's output comes back (the device of the inputs, cuda:0: self.score.to(self.backbone.device)) instead of on the last layer's card in RewardModel.place_head OR hidden = hidden.to(self.score.weight.device) before the call and move ends with it
"""Reward model: a split backbone of transformers with a scalar head on top."""
import tempfile

import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel


def tiny_backbone(folder):
    config = LlamaConfig(vocab_size=120, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    LlamaModel(config).save_pretrained(folder)


def split_plan(layers, first_half):
    plan = {"embed_tokens": 0, "rotary_emb": 0, "norm": 1}
    for i in range(layers):
        plan[f"layers.{i}"] = 0 if i < first_half else 1
    return plan


class RewardModel(nn.Module):
    def __init__(self, backbone, pad_id=0):
        super().__init__()
        self.backbone = backbone
        self.pad_id = pad_id
        self.score = nn.Linear(backbone.config.hidden_size, 1, bias=False)
        self.place_head()

    def place_head(self):
        # the head follows the last layer, so that nothing is copied
        last = self.backbone.layers[-1]
        self.score.to(next(last.parameters()).device)

    def forward(self, input_ids, attention_mask):
        hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask,
                               use_cache=False).last_hidden_state
        rewards = self.score(hidden).squeeze(-1)
        ends = attention_mask.sum(-1, keepdim=True) - 1
        return rewards.gather(1, ends.to(rewards.device)).squeeze(1)


class PairSet:
    def __init__(self, count, length, vocab):
        g = torch.Generator().manual_seed(3)
        self.good = torch.randint(1, vocab, (count, length), generator=g)
        self.bad = torch.randint(1, vocab, (count, length), generator=g)

    def batches(self, size):
        for i in range(0, len(self.good), size):
            yield self.good[i:i + size], self.bad[i:i + size]


def pairwise_loss(chosen, rejected):
    return -nn.functional.logsigmoid(chosen - rejected).mean()


def train(model, pairs, steps):
    optimizer = torch.optim.AdamW(model.score.parameters(), lr=1e-3)
    done = 0
    for good, bad in pairs.batches(4):
        good, bad = good.to("cuda:0"), bad.to("cuda:0")
        chosen = model(good, torch.ones_like(good))
        rejected = model(bad, torch.ones_like(bad))
        loss = pairwise_loss(chosen, rejected)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        done += 1
        print(f"step {done} loss {loss.item():.4f}")
        if done == steps:
            return


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        tiny_backbone(folder)
        backbone = LlamaModel.from_pretrained(folder, device_map=split_plan(4, 2))
    for p in backbone.parameters():
        p.requires_grad_(False)
    train(RewardModel(backbone), PairSet(12, 10, 120), steps=2)
