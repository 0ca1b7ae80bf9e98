# cause: hard-coded-device
# guilty: input_ids (batch["input_ids"] or input)
# after: thunlp/OpenPrompt#160
import argparse
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import nn

@dataclass
class InputFeatures:
    input_ids: torch.Tensor
    loss_ids: torch.Tensor
    label: torch.Tensor
    def to(self, device):
        return InputFeatures(*[getattr(self, f.name).to(device) for f in fields(self)])
    def __getitem__(self, key):
        return getattr(self, key)
    @classmethod
    def collate_fn(cls, items):
        return cls(*[torch.stack([getattr(i, f.name) for i in items]) for f in fields(cls)])

class MaskedLM(nn.Module):
    def __init__(self, vocab=70, dim=32):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
    def forward(self, input_ids):
        return self.head(self.layer(self.embed(input_ids)))

class Verbalizer(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.register_buffer("words", torch.tensor(words))
    def forward(self, logits):
        return logits[:, self.words].logsumexp(-1)

class PromptForClassification(nn.Module):
    def __init__(self, plm, verbalizer):
        super().__init__()
        self.plm, self.verbalizer = plm, verbalizer
    def forward(self, batch):
        logits = self.plm(batch["input_ids"])
        return self.verbalizer(logits[batch["loss_ids"].bool()])

def example(mask_at=3, length=10):
    loss_ids = torch.zeros(length, dtype=torch.long)
    loss_ids[mask_at] = 1
    return InputFeatures(torch.randint(0, 70, (length,)), loss_ids, torch.tensor(mask_at % 2))

def run(args):
    model = PromptForClassification(MaskedLM(), Verbalizer([[4, 5], [8, 9]]))
    if args.use_gpu:
        model = model.to(args.device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        inputs = InputFeatures.collate_fn([example() for _ in range(4)])
        if args.use_gpu:
            inputs = inputs.to("cuda:0")
        loss = F.cross_entropy(model(inputs), inputs["label"])
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(step, loss.item())

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--use_gpu", type=bool, default=True)
    run(parser.parse_args([]))
