# cause: lm-head-or-tied-weight-split|module-left-on-other-device|embedding-streams-on-different-devices
# guilty: pooled (self.head, self.head.weight)
# line: 47
# repair: place the head where the dispatched model hands its outputs back, i.e. on the device of the inputs: self.head.to(self.backbone.get_input_embeddings().weight.device) OR self.head(pooled.to(self.head.weight.device)), and the targets with it
import tempfile

import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaModel


def tiny_checkpoint(folder):
    config = LlamaConfig(
        vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
    )
    LlamaModel(config).save_pretrained(folder)


def half_and_half(n_layers):
    plan = {"embed_tokens": "cuda:0", "rotary_emb": "cuda:0", "norm": "cuda:1"}
    for i in range(n_layers):
        plan[f"layers.{i}"] = "cuda:0" if i < n_layers // 2 else "cuda:1"
    return plan


class EssayScorer(nn.Module):
    """Regression on the mean state of a decoder which is spread over the cards."""

    def __init__(self, folder, plan):
        super().__init__()
        self.backbone = LlamaModel.from_pretrained(folder, device_map=plan)
        self.backbone.requires_grad_(False)
        hidden = self.backbone.config.hidden_size
        # the last norm decides where the final states are
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.head.to(plan["norm"])
        self.input_device = plan["embed_tokens"]
        self.output_device = plan["norm"]

    def forward(self, input_ids, attention_mask):
        input_ids = input_ids.to(self.input_device)
        attention_mask = attention_mask.to(self.input_device)
        states = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        keep = attention_mask.unsqueeze(-1).to(states)
        pooled = (states * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.head(pooled).squeeze(-1)


class EssayData:
    def __init__(self, n, length=24):
        self.n, self.length = n, length

    def __iter__(self):
        for _ in range(self.n):
            ids = torch.randint(1, 256, (4, self.length))
            mask = torch.ones_like(ids)
            ids[:, -4:] = 0
            mask[:, -4:] = 0
            yield {"input_ids": ids, "attention_mask": mask}, torch.rand(4)


def fit(model, data, lr=1e-3):
    opt = torch.optim.AdamW(model.head.parameters(), lr=lr)
    for step, (batch, score) in enumerate(data):
        guess = model(**batch)
        loss = nn.functional.mse_loss(guess, score.to(model.output_device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step} {loss.item():.4f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tiny_checkpoint(folder)
        scorer = EssayScorer(folder, half_and_half(4))
        fit(scorer, EssayData(3))
