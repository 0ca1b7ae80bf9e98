# cause: extra-input-on-wrong-device
# guilty: weights (token_weights or weights.unsqueeze(-1))
"""句向量训练：用 TF-IDF 风格的词权重对 BERT 输出加权池化，对比学习损失。"""
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel

MODEL_KEYS = ("input_ids", "attention_mask", "token_type_ids")
PAD = 0


def corpus(n=32, vocab=200, seed=1):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, 15, (n,), generator=g).tolist()
    return [torch.randint(1, vocab, (k,), generator=g).tolist() for k in lengths]


class Collator:
    """补齐，并给每个 token 一个逆词频权重。"""

    def __init__(self, sentences):
        counts = Counter(t for s in sentences for t in s)
        total = sum(counts.values())
        self.idf = {t: total / (c + 1) for t, c in counts.items()}

    def __call__(self, sentences):
        width = max(map(len, sentences))
        ids = torch.full((len(sentences), width), PAD)
        mask = torch.zeros_like(ids)
        weights = torch.zeros(len(sentences), width)
        for row, s in enumerate(sentences):
            ids[row, : len(s)] = torch.tensor(s)
            mask[row, : len(s)] = 1
            weights[row, : len(s)] = torch.tensor([self.idf[t] for t in s])
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": torch.zeros_like(ids),
            "token_weights": weights,
        }


def to_device(batch, device):
    for key in MODEL_KEYS:
        batch[key] = batch[key].to(device)
    return batch


class SentenceEncoder(nn.Module):
    def __init__(self, vocab=200):
        super().__init__()
        config = BertConfig(
            vocab_size=vocab,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
        )
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, token_weights, **encoder_inputs):
        hidden = self.bert(**encoder_inputs).last_hidden_state
        weights = token_weights / token_weights.sum(1, keepdim=True)
        pooled = (hidden * weights.unsqueeze(-1)).sum(1)
        return F.normalize(pooled, dim=-1)


def info_nce(a, b, temperature=0.05):
    sim = a @ b.t() / temperature
    return F.cross_entropy(sim, torch.arange(a.size(0), device=a.device))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    sentences = corpus()
    loader = DataLoader(sentences, batch_size=8, shuffle=True, collate_fn=Collator(sentences))
    model = SentenceEncoder().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for step, batch in enumerate(loader):
        batch = to_device(batch, device)
        loss = info_nce(model(**batch), model(**batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
