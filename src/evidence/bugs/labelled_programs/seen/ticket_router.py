# cause: input-not-on-embedding-device
# guilty: batch.ids
"""Route support tickets with DistilBERT."""
from dataclasses import dataclass, replace

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification


@dataclass(frozen=True)
class Tickets:
    ids: torch.Tensor
    mask: torch.Tensor
    queue: torch.Tensor

    def to(self, device):
        return replace(self, ids=self.ids.to(device), mask=self.mask.to(device), queue=self.queue.to(device))

    def __len__(self):
        return self.ids.size(0)


def stream(n, width=10):
    for i in range(n):
        gen = torch.Generator().manual_seed(i)
        lengths = torch.randint(4, width + 1, (6,), generator=gen)
        mask = (torch.arange(width) < lengths[:, None]).long()
        ids = torch.randint(1, 70, (6, width), generator=gen) * mask
        yield Tickets(ids, mask, torch.randint(0, 3, (6,), generator=gen))


class Router:
    def __init__(self, device):
        cfg = DistilBertConfig(vocab_size=70, dim=32, hidden_dim=64, n_layers=2, n_heads=4,
                               max_position_embeddings=32, num_labels=3)
        self.device = torch.device(device)
        self.model = DistilBertForSequenceClassification(cfg).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def logits(self, batch):
        return self.model(input_ids=batch.ids, attention_mask=batch.mask).logits

    def fit(self, batches):
        self.model.train()
        for batch in batches:
            batch = batch.to(self.device)
            loss = torch.nn.functional.cross_entropy(self.logits(batch), batch.queue)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    @torch.no_grad()
    def score(self, batches):
        self.model.eval()
        right = seen = 0
        for batch in batches:
            batch.to(self.device)
            guess = self.logits(batch).argmax(-1).cpu()
            right += int((guess == batch.queue.cpu()).sum())
            seen += len(batch)
        return right / seen


if __name__ == "__main__":
    torch.manual_seed(0)
    router = Router("cuda:0")
    router.fit(stream(3))
    print("accuracy", router.score(stream(2)))
