# cause: extra-input-on-wrong-device
# guilty: batch.get("bbox")
"""Tag the fields of scanned receipts with LayoutLM."""
import torch
from transformers import LayoutLMConfig, LayoutLMForTokenClassification

TEXT_KEYS = ("input_ids", "attention_mask", "token_type_ids", "labels")


def receipts(count, width=14):
    for i in range(count):
        gen = torch.Generator().manual_seed(i)
        left = torch.randint(0, 400, (2, width, 2), generator=gen)
        size = torch.randint(10, 90, (2, width, 2), generator=gen)
        yield {
            "input_ids": torch.randint(1, 80, (2, width), generator=gen),
            "attention_mask": torch.ones(2, width, dtype=torch.long),
            "token_type_ids": torch.zeros(2, width, dtype=torch.long),
            "labels": torch.randint(0, 4, (2, width), generator=gen),
            "bbox": torch.cat([left, left + size], dim=-1),
            "file": [f"scan_{i}_{k}.png" for k in range(2)],
        }


def to_device(batch, device):
    return {k: v.to(device, non_blocking=True) if k in TEXT_KEYS else v for k, v in batch.items()}


class Tagger:
    def __init__(self, device):
        cfg = LayoutLMConfig(vocab_size=80, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                             intermediate_size=48, max_position_embeddings=32, num_labels=4)
        self.model = LayoutLMForTokenClassification(cfg).to(device)
        self.device = device
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def forward(self, batch):
        return self.model(
            input_ids=batch["input_ids"],
            bbox=batch.get("bbox"),
            attention_mask=batch["attention_mask"],
            token_type_ids=batch["token_type_ids"],
            labels=batch.get("labels"),
        )

    def train(self, stream):
        for batch in stream:
            out = self.forward(to_device(batch, self.device))
            self.optimizer.zero_grad()
            out.loss.backward()
            self.optimizer.step()
        return out.loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    print("last loss", Tagger(torch.device("cuda:0")).train(receipts(2)))
