# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: hidden (hx or (hidden, cell) or cell)
# after: Lightning-AI/pytorch-lightning#3738
import torch
from torch import nn

class LightModule(nn.Module):
    @property
    def device(self):
        return next(self.parameters()).device

class CharRNN(LightModule):
    lr = 5e-3

    def __init__(self, letters, categories, hidden_size=24, embedding=12, n_layers=1):
        super().__init__()
        self.n_layers, self.hidden_size, self.categories = n_layers, hidden_size, categories
        self.criterion = nn.CrossEntropyLoss()
        self.embedding = nn.Embedding(letters, embedding)
        self.lstm = nn.LSTM(embedding + categories, hidden_size, n_layers)
        self.out_fc = nn.Linear(hidden_size, letters)

    def init_hidden(self, batch):
        hidden = torch.zeros(self.n_layers, batch, self.hidden_size)
        cell = torch.zeros(self.n_layers, batch, self.hidden_size)
        return hidden, cell

    def forward(self, category, letter, hidden, cell):
        x = torch.cat((category, self.embedding(letter)), 1).unsqueeze(0)
        out, (hidden, cell) = self.lstm(x, (hidden, cell))
        return self.out_fc(out.squeeze(0)), hidden, cell

    def training_step(self, batch, batch_idx):
        category, names = batch
        hidden, cell = self.init_hidden(names.shape[0])
        loss = 0.0
        for i in range(names.shape[1] - 1):
            out, hidden, cell = self(category, names[:, i], hidden, cell)
            loss = loss + self.criterion(out, names[:, i + 1])
        return loss / (names.shape[1] - 1)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.lr)

class Trainer:
    def __init__(self, device, epochs):
        self.device, self.epochs = torch.device(device), epochs

    def transfer(self, batch):
        return tuple(t.to(self.device) for t in batch)

    def fit(self, module, loader):
        module.to(self.device)
        opt = module.configure_optimizers()
        for epoch in range(self.epochs):
            for idx, batch in enumerate(loader):
                loss = module.training_step(self.transfer(batch), idx)
                opt.zero_grad()
                loss.backward()
                opt.step()
            print(epoch, loss.item())

if __name__ == "__main__":
    names = [(torch.eye(3)[torch.randint(0, 3, (8,))], torch.randint(0, 27, (8, 7))) for _ in range(3)]
    Trainer("cuda", epochs=2).fit(CharRNN(27, 3), names)
