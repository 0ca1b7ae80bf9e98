# cause: loss-or-label-on-other-device
# guilty: flat_labels
# after: huggingface/transformers#31008
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn

@dataclass
class Output:
    logits: torch.Tensor
    loss: Optional[torch.Tensor] = None

class GemmaLike(nn.Module):
    def __init__(self, vocab, dim, devices):
        super().__init__()
        self.devices = devices
        self.embed = nn.Embedding(vocab, dim).to(devices[0])
        self.first = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True).to(devices[0])
        self.second = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True).to(devices[1])
        self.head = nn.Linear(dim, vocab).to(devices[1])
    def forward(self, embeds):
        x = self.first(embeds).to(self.devices[1])
        return self.head(self.second(x))

class ForConditionalGeneration(nn.Module):
    def __init__(self, devices, vocab=60, dim=32, image_token=59):
        super().__init__()
        self.vocab, self.image_token = vocab, image_token
        self.vision_tower = nn.Sequential(nn.Linear(30, dim), nn.LayerNorm(dim)).to(devices[0])
        self.language_model = GemmaLike(vocab, dim, devices)
    def merge(self, ids, pixel_values):
        embeds = self.language_model.embed(ids)
        feats = self.vision_tower(pixel_values).reshape(-1, embeds.shape[-1])
        slots = (ids == self.image_token).unsqueeze(-1).expand_as(embeds)
        return embeds.masked_scatter(slots, feats)
    def forward(self, input_ids, pixel_values, attention_mask, labels=None):
        logits = self.language_model(self.merge(input_ids, pixel_values))
        loss = None
        if labels is not None:
            keep = attention_mask[:, 1:]
            shift_logits = logits[:, :-1][keep.to(logits.device) != 0].contiguous()
            shift_labels = labels[:, 1:][keep.to(labels.device) != 0].contiguous()
            flat_logits, flat_labels = shift_logits.view(-1, self.vocab), shift_labels.view(-1)
            loss = nn.CrossEntropyLoss()(flat_logits, flat_labels)
        return Output(logits, loss)

class Processor:
    def __init__(self, image_token, patches):
        self.image_token, self.patches = image_token, patches
    def __call__(self, captions, device):
        width = max(len(c) for c in captions)
        rows = [[self.image_token] * self.patches + c + [0] * (width - len(c)) for c in captions]
        ids = torch.tensor(rows)
        batch = {"input_ids": ids, "pixel_values": torch.rand(len(rows), self.patches, 30),
                 "attention_mask": (ids != 0).long(), "labels": ids.clone()}
        return {k: v.to(device) for k, v in batch.items()}

if __name__ == "__main__":
    model = ForConditionalGeneration(["cuda:0", "cuda:1"])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = Processor(59, 4)([[5, 6, 7], [8, 9, 10, 11]], "cuda:0")
    for _ in range(2):
        out = model(**batch)
        out.loss.backward()
        opt.step()
        opt.zero_grad()
        print(out.loss.item())
