# cause: input-not-on-embedding-device
# guilty: ids
import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(2)
cfg = BertConfig(vocab_size=90, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                 intermediate_size=32, max_position_embeddings=40, num_labels=1)
model = BertForSequenceClassification(cfg).eval()
where = model.device
model.to("cuda:1")


def collate(pairs, pad=0):
    width = max(len(q) + len(d) for q, d in pairs)
    ids = torch.full((len(pairs), width), pad)
    kind = torch.zeros(len(pairs), width, dtype=torch.long)
    keep = torch.zeros(len(pairs), width, dtype=torch.long)
    for row, (q, d) in enumerate(pairs):
        ids[row, : len(q) + len(d)] = torch.tensor(q + d)
        kind[row, len(q): len(q) + len(d)] = 1
        keep[row, : len(q) + len(d)] = 1
    return ids.to(where), kind.to(where), keep.to(where)


query = [5, 9, 12]
documents = [[30, 31, 32, 33], [40, 41], [50, 51, 52, 53, 54]]

with torch.no_grad():
    ids, kind, keep = collate([(query, d) for d in documents])
    score = model(input_ids=ids, attention_mask=keep, token_type_ids=kind).logits.squeeze(-1)

for rank, j in enumerate(score.argsort(descending=True).tolist(), 1):
    print(rank, documents[j], round(score[j].item(), 4))
