# cause: module-left-on-other-device
# guilty: head
"""Joint intent, topic and sentiment heads on one ELECTRA encoder."""
import torch
from torch import nn
from transformers import ElectraConfig, ElectraModel

TASKS = {"intent": 6, "topic": 4, "sentiment": 2}


class JointModel(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        cfg = ElectraConfig(vocab_size=90, embedding_size=24, hidden_size=32, num_hidden_layers=2,
                            num_attention_heads=4, intermediate_size=48, max_position_embeddings=40)
        self.encoder = ElectraModel(cfg)
        self.shared = nn.Sequential(nn.Linear(32, 32), nn.GELU())
        self.heads = {task: nn.Linear(32, n) for task, n in tasks.items()}

    def trainable(self):
        yield from self.encoder.parameters()
        yield from self.shared.parameters()
        for head in self.heads.values():
            yield from head.parameters()

    def forward(self, ids, mask, tasks=None):
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = self.shared(hidden[:, 0])
        return {task: head(pooled) for task, head in self.heads.items() if tasks is None or task in tasks}


def requests(n):
    gen = torch.Generator().manual_seed(3)
    for _ in range(n):
        ids = torch.randint(1, 90, (4, 9), generator=gen)
        gold = {t: torch.randint(0, k, (4,), generator=gen) for t, k in TASKS.items()}
        yield ids, torch.ones_like(ids), gold


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = JointModel(TASKS).to(device)
    opt = torch.optim.AdamW(model.trainable(), lr=1e-3)
    for ids, mask, gold in requests(2):
        logits = model(ids.to(device), mask.to(device))
        losses = [nn.functional.cross_entropy(logits[t], gold[t].to(device)) for t in TASKS]
        loss = torch.stack(losses).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
