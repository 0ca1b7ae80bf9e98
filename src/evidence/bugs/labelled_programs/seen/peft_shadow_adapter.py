# cause: optimizer-state-on-other-device
# guilty: self.shadow[name] (shadow)
# line: 25
# repair: in main build AdapterShadow after `model.to(device)` OR in AdapterShadow.update write `self.shadow[name].to(p.device)` and keep the result
"""LoRA fine-tuning with peft; an average of the adapter alone is kept for evaluation."""
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification


class AdapterShadow:
    """Exponential average of everything that trains."""

    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)

    @torch.no_grad()
    def swap_in(self, model):
        for name, p in model.named_parameters():
            if name in self.shadow:
                self.backup[name] = p.detach().clone()
                p.copy_(self.shadow[name])

    @torch.no_grad()
    def swap_out(self, model):
        for name, p in model.named_parameters():
            if name in self.backup:
                p.copy_(self.backup.pop(name))


def build():
    config = BertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=32, num_labels=3)
    base = BertForSequenceClassification(config)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value"], modules_to_save=["classifier"],
                      lora_dropout=0.0)
    return get_peft_model(base, lora)


def reviews(n, length=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 120, (n, length), generator=g)
    return [(row, int(row[0]) % 3) for row in ids]


def collate(rows):
    ids, labels = zip(*rows)
    return torch.stack(ids), torch.tensor(labels)


def evaluate(model, loader, device):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for ids, labels in loader:
            pred = model(input_ids=ids.to(device)).logits.argmax(-1).cpu()
            hits += int((pred == labels).sum())
            total += len(labels)
    return hits / total


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    model = build()
    shadow = AdapterShadow(model)
    model.to(device)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    train = DataLoader(reviews(48), batch_size=16, shuffle=True, collate_fn=collate)
    test = DataLoader(reviews(24, seed=1), batch_size=8, collate_fn=collate)
    for epoch in range(2):
        model.train()
        for ids, labels in train:
            logits = model(input_ids=ids.to(device)).logits
            loss = F.cross_entropy(logits, labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            shadow.update(model)
        print("epoch", epoch, "loss", loss.item())
    shadow.swap_in(model)
    print("averaged", evaluate(model, test, device))
    shadow.swap_out(model)


if __name__ == "__main__":
    main()
