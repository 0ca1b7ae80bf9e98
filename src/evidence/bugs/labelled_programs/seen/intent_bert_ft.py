# cause: loss-or-label-on-other-device
# guilty: target
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertModel


class Intents(Dataset):
    def __init__(self, n=48, length=12):
        self.ids = torch.randint(5, 200, (n, length))
        self.intent = torch.randint(0, 6, (n,))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]), "intent": self.intent[i]}


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        cfg = BertConfig(vocab_size=200, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                         intermediate_size=64, max_position_embeddings=32)
        self.bert = BertModel(cfg)
        self.out = torch.nn.Linear(48, 6)

    def forward(self, input_ids, attention_mask):
        h = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.out(h.mean(1))


device = torch.device("cuda")
clf = Classifier().to(device)
opt = torch.optim.AdamW(clf.parameters(), lr=5e-5)
loss_fn = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(2):
    for batch in DataLoader(Intents(), batch_size=8, shuffle=True):
        target = batch.pop("intent")
        inputs = {k: v.to(device) for k, v in batch.items()}
        logits = clf(**inputs)
        loss = loss_fn(logits, target)
        loss.backward()
        opt.step()
        opt.zero_grad()
print("done", loss.item())
