# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: hidden (cell or hx)
# after: Lightning-AI/pytorch-lightning#3738
import torch
import torch.nn as nn

class CategoryLSTM(nn.Module):
    def __init__(self, n_letters, n_categories, embedding=12, hidden=16, n_layers=2):
        super().__init__()
        self.n_layers, self.hidden_size = n_layers, hidden
        self.n_categories = n_categories
        self.embedding = nn.Embedding(n_letters, embedding)
        self.lstm = nn.LSTM(embedding + n_categories, hidden, n_layers)
        self.out_fc = nn.Linear(hidden, n_letters)
    def forward(self, category, letters, hidden, cell):
        emb = self.embedding(letters)
        emb = torch.cat((category, emb), dim=1).unsqueeze(0)
        out, (hidden, cell) = self.lstm(emb, (hidden, cell))
        return self.out_fc(out.squeeze(0)), hidden, cell
    def init_hidden(self, batch_size):
        hidden = torch.zeros(self.n_layers, batch_size, self.hidden_size)
        cell = torch.zeros(self.n_layers, batch_size, self.hidden_size)
        return hidden, cell

class MiniTrainer:
    """Moves the module and each batch, as a lightning trainer does."""
    def __init__(self, accelerator, max_epochs):
        self.device = torch.device(accelerator)
        self.max_epochs = max_epochs
    def move(self, obj):
        if isinstance(obj, torch.Tensor):
            return obj.to(self.device)
        return type(obj)(self.move(o) for o in obj)
    def fit(self, module, batches):
        module.model.to(self.device)
        optimizer = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            for index, batch in enumerate(batches):
                loss = module.training_step(self.move(batch), index)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print("epoch", epoch, loss.item())

class NamesModule:
    def __init__(self, n_letters=30, n_categories=5):
        self.model = CategoryLSTM(n_letters, n_categories)
        self.criterion = nn.CrossEntropyLoss()
    def configure_optimizers(self):
        return torch.optim.Adam(self.model.parameters(), lr=5e-4)
    def training_step(self, batch, batch_idx):
        categories, names = batch
        hidden, cell = self.model.init_hidden(names.shape[0])
        loss = 0
        for i in range(names.shape[1] - 1):
            output, hidden, cell = self.model(categories, names[:, i], hidden, cell)
            loss = loss + self.criterion(output, names[:, i + 1])
        return loss / (names.shape[1] - 1)

def random_batches(n=3, size=4, length=6):
    for_ = []
    for _ in range(n):
        category = nn.functional.one_hot(torch.randint(0, 5, (size,)), 5).float()
        for_.append((category, torch.randint(0, 30, (size, length))))
    return for_

if __name__ == "__main__":
    torch.manual_seed(1)
    MiniTrainer("cuda", max_epochs=1).fit(NamesModule(), random_batches())
