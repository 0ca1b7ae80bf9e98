# cause: extra-input-on-wrong-device
# guilty: segments
import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
device = "cuda:0"
config = BertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                    intermediate_size=64, max_position_embeddings=40, num_labels=2)
model = BertForSequenceClassification(config).to(device)

CLS, SEP, PAD = 1, 2, 0


def encode(pairs, max_len=24):
    ids = torch.full((len(pairs), max_len), PAD)
    segments = torch.zeros(len(pairs), max_len, dtype=torch.long)
    for i, (a, b) in enumerate(pairs):
        row = [CLS, *a, SEP, *b, SEP]
        ids[i, :len(row)] = torch.tensor(row)
        segments[i, len(a) + 2:len(row)] = 1
    return ids, (ids != PAD).long(), segments


def random_pair():
    a = torch.randint(3, 120, (8,)).tolist()
    same = torch.rand(()) < 0.5
    b = list(reversed(a)) if same else torch.randint(3, 120, (8,)).tolist()
    return (a, b), int(same)


optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
model.train()
for step in range(4):
    pairs, labels = zip(*(random_pair() for _ in range(8)))
    ids, mask, segments = encode(pairs)
    batch = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
    target = torch.tensor(labels, device=device)
    out = model(**batch, token_type_ids=segments, labels=target)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    acc = (out.logits.argmax(-1) == target).float().mean()
    print(f"step {step} loss {out.loss.item():.3f} acc {acc.item():.2f}")
