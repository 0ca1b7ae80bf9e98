# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device|lm-head-or-tied-weight-split
# guilty: ends
# line: 24
# repair: in RewardScorer.forward write `ends = (attention_mask.sum(dim=1, keepdim=True) - 1).to(scores.device)` OR `torch.gather(scores, 1, ends.to(scores.device))`
"""Score answers with a llama-shaped reward model that lies over two GPUs."""
import tempfile

import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaModel, LlamaPreTrainedModel


class RewardScorer(LlamaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.v_head = nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        scores = self.v_head(hidden).squeeze(-1)
        ends = attention_mask.sum(dim=1, keepdim=True) - 1
        return torch.gather(scores, 1, ends)


def stage_map(layers):
    device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "v_head": 1}
    for i in range(layers):
        device_map[f"model.layers.{i}"] = 0 if 2 * i < layers else 1
    return device_map


def pad(rows, pad_id=0):
    width = max(len(r) for r in rows)
    ids = torch.full((len(rows), width), pad_id)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
        mask[i, :len(row)] = 1
    return ids, mask


def main():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    folder = tempfile.mkdtemp()
    RewardScorer(config).save_pretrained(folder)
    scorer = RewardScorer.from_pretrained(folder, device_map=stage_map(4)).eval()
    ids, mask = pad([[5, 6, 7, 8], [9, 10], [11, 12, 13]])
    with torch.no_grad():
        rewards = scorer(input_ids=ids, attention_mask=mask)
    order = rewards.squeeze(1).argsort(descending=True).tolist()
    print("ranking", order)


if __name__ == "__main__":
    main()
