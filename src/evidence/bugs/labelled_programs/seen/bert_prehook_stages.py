# cause: extra-input-on-wrong-device
# guilty: attention_mask (batch["attention_mask"], the mask that the encoder hands to its upper layers)
# line: 60
# repair: in mover move every tensor of the arguments and keywords, not only the first: tuple(a.to(device) if torch.is_tensor(a) else a for a in args), registered with with_kwargs=True for the keywords OR place the model with dispatch_model, whose hooks move all inputs
"""Run a BERT classifier over two cards by moving the upper layers and hooking them."""
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

FIRST, SECOND = "cuda:0", "cuda:1"


def mover(device):
    def hook(module, args):
        return (args[0].to(device),) + args[1:]
    return hook


def parallelize(model, cut):
    model.bert.embeddings.to(FIRST)
    for i, layer in enumerate(model.bert.encoder.layer):
        device = FIRST if i < cut else SECOND
        layer.to(device)
        layer.register_forward_pre_hook(mover(device))
    model.bert.pooler.to(SECOND)
    model.classifier.to(SECOND)
    return model


def collate(rows):
    width = max(len(ids) for ids, _ in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for i, (row, _) in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}, torch.tensor([y for _, y in rows])


def corpus(n=12):
    g = torch.Generator().manual_seed(8)
    rows = []
    for i in range(n):
        length = 5 + i % 7
        rows.append((torch.randint(3, 120, (length,), generator=g).tolist(), i % 3))
    return rows


def main():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=32, num_labels=3)
    model = parallelize(BertForSequenceClassification(config), cut=2)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    loader = DataLoader(corpus(), batch_size=4, collate_fn=collate, shuffle=True)
    for epoch in range(2):
        for batch, labels in loader:
            batch = {k: v.to(FIRST) for k, v in batch.items()}
            logits = model(**batch).logits
            loss = F.cross_entropy(logits, labels.to(logits.device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
