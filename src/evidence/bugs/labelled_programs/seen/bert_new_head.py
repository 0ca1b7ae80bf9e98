# cause: module-left-on-other-device
# guilty: model.classifier.weight (model.classifier or self.classifier)
import torch
from transformers import BertConfig, BertForSequenceClassification

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def tiny(num_labels):
    return BertConfig(vocab_size=150, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=64, max_position_embeddings=40, num_labels=num_labels)


model = BertForSequenceClassification(tiny(2))
model.to(device)


def retarget(model, n):
    model.config.num_labels = n
    model.num_labels = n
    model.classifier = torch.nn.Linear(model.config.hidden_size, n)
    torch.nn.init.normal_(model.classifier.weight, std=0.02)
    return model


model = retarget(model, 5)
for name, p in model.named_parameters():
    p.requires_grad = name.startswith("classifier") or "pooler" in name
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

model.train()
for step in range(4):
    ids = torch.randint(3, 150, (6, 18)).to(device)
    labels = torch.randint(0, 5, (6,)).to(device)
    out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, out.loss.item())
