# cause: loss-or-label-on-other-device
# guilty: labels
# after: HoyTta0/KnowledgeDistillation#10
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

@dataclass
class Config:
    num_labels: int = 4
    max_len: int = 10
    vocab: int = 60
    device: torch.device = torch.device("cuda")
    epochs: int = 1
    lr: float = 2e-3

class Teacher(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.emb = nn.Embedding(config.vocab, 32)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.fc = nn.Linear(32, config.num_labels)

    def forward(self, ids):
        return self.fc(self.encoder(self.emb(ids)).mean(1))

def make_loader(config, n):
    ids = torch.randint(0, config.vocab, (n, config.max_len))
    return DataLoader(TensorDataset(ids, torch.randint(0, config.num_labels, (n,))), batch_size=8)

def teacher_evaluate(model, config, data_iter, criterion):
    model.eval()
    loss_total, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for ids, labels in data_iter:
            outputs = model(ids.to(config.device))
            loss_total += criterion(outputs, labels).item()
            hits += (outputs.argmax(1).cpu() == labels).sum().item()
            count += len(labels)
    return hits / count, loss_total / len(data_iter)

def teacher_train(model, config, train_iter, dev_iter):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
    for epoch in range(config.epochs):
        model.train()
        for step, (ids, labels) in enumerate(train_iter):
            ids, target = ids.to(config.device), labels.to(config.device)
            loss = criterion(model(ids), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 2 == 1:
                acc, dev_loss = teacher_evaluate(model, config, dev_iter, criterion)
                print(f"{epoch}/{step} loss {loss.item():.3f} dev {dev_loss:.3f} acc {acc:.2f}")
                model.train()

if __name__ == "__main__":
    config = Config()
    teacher = Teacher(config).to(config.device)
    teacher_train(teacher, config, make_loader(config, 32), make_loader(config, 16))
