# cause: loss-or-label-on-other-device
# guilty: labels.view(-1) (labels, batch["labels"])
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification


class Reviews(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(1)
        self.ids = torch.randint(5, 80, (n, 12), generator=g)
        self.labels = (self.ids.float().mean(1) > 42).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(12, dtype=torch.long), "labels": self.labels[i]}


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items() if k != "labels"} | {"labels": batch["labels"]}


def build(device):
    cfg = BertConfig(vocab_size=80, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                     intermediate_size=32, max_position_embeddings=32, num_labels=2)
    cfg._attn_implementation = "eager"
    return BertForSequenceClassification(cfg).to(device)


def train_epoch(model, loader, opt, device):
    model.train()
    losses = []
    for batch in loader:
        batch = to_device(batch, device)
        out = model(**batch)
        out.loss.backward()
        opt.step()
        opt.zero_grad()
        losses.append(out.loss.detach())
    return torch.stack(losses).mean().item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = build(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    loader = DataLoader(Reviews(24), batch_size=8, shuffle=True)
    for epoch in range(2):
        print(epoch, train_epoch(model, loader, opt, device))


if __name__ == "__main__":
    main()
