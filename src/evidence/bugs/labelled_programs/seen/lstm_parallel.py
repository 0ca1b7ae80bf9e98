# cause: data-parallel-replica-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: state (self.h0 or self.c0)
import torch
import torch.nn as nn


class TextLSTM(nn.Module):
    def __init__(self, vocab=200, dim=24, hidden=32, layers=2, max_batch=64, device="cuda:0"):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, 2)
        self.h0 = torch.zeros(layers, max_batch, hidden, device=device)
        self.c0 = torch.zeros(layers, max_batch, hidden, device=device)

    def forward(self, ids):
        b = ids.size(0)
        x = self.emb(ids)
        state = (self.h0[:, :b].contiguous(), self.c0[:, :b].contiguous())
        out, _ = self.lstm(x, state)
        return self.fc(out[:, -1])


torch.manual_seed(0)
device = "cuda:0"
model = nn.DataParallel(TextLSTM(device=device).to(device))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
crit = nn.CrossEntropyLoss().to(device)

for epoch in range(2):
    total = 0.0
    for step in range(4):
        ids = torch.randint(0, 200, (32, 15)).to(device)
        y = (ids[:, 0] > 100).long()
        loss = crit(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print("epoch", epoch, total / 4)
