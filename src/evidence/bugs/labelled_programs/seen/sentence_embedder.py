# cause: device-from-unordered-set
# guilty: batch["input_ids"]
"""Sentence embedding service around a BERT encoder whose halves live on two cards."""
import torch
from torch import nn
from transformers import BertConfig, BertModel


def model_device(module):
    """The device a module computes on."""
    devices = {p.device for p in module.parameters()}
    return devices.pop()


class Pooler(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.proj = nn.Linear(dim, out)

    def forward(self, hidden, mask):
        mask = mask.to(hidden.device)[..., None].to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        mean = mean.to(self.proj.weight.device)
        return nn.functional.normalize(self.proj(mean), dim=-1)


class SentenceEmbedder(nn.Module):
    def __init__(self, backbone_device, pooler_device):
        super().__init__()
        cfg = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                         intermediate_size=64, max_position_embeddings=64)
        self.backbone = BertModel(cfg, add_pooling_layer=False).to(backbone_device)
        self.pooler = Pooler(32, 8).to(pooler_device)

    def forward(self, batch):
        out = self.backbone(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        return self.pooler(out.last_hidden_state, batch["attention_mask"])

    @torch.no_grad()
    def encode(self, texts, batch_size=4):
        device = model_device(self)
        vectors = []
        for i in range(0, len(texts), batch_size):
            batch = {k: v.to(device) for k, v in tokenize(texts[i:i + batch_size]).items()}
            vectors.append(self(batch).cpu())
        return torch.cat(vectors)


def tokenize(texts):
    rows = [[ord(c) % 100 for c in t] for t in texts]
    width = max(map(len, rows))
    ids = torch.tensor([r + [0] * (width - len(r)) for r in rows])
    mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
    return {"input_ids": ids, "attention_mask": mask}


if __name__ == "__main__":
    torch.manual_seed(0)
    embedder = SentenceEmbedder(backbone_device="cuda:1", pooler_device="cuda:0").eval()
    vectors = embedder.encode(["red fox", "blue whale", "a dog", "cat", "green parrot"])
    print((vectors @ vectors.T).shape)
