# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: state_sum (state["sum"] or optimizer.state or self.optimizer.state)
# after: Lightning-AI/pytorch-lightning#554
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

class FactorizationMachine(nn.Module):
    def __init__(self, field_dims, k=8):
        super().__init__()
        total = sum(field_dims)
        self.register_buffer("offsets", torch.tensor([0] + list(field_dims[:-1])).cumsum(0))
        self.linear = nn.Embedding(total, 1)
        self.factors = nn.Embedding(total, k)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        x = x + self.offsets
        v = self.factors(x)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return self.linear(x).sum(dim=(1, 2)) + pair + self.bias

class LitModule:
    def __init__(self, model, lr):
        self.model, self.lr = model, lr
        self.loss = nn.BCEWithLogitsLoss()

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.model.parameters(), lr=self.lr, foreach=False)

    def training_step(self, batch):
        x, y = batch
        return self.loss(self.model(x), y)

class Trainer:
    def __init__(self, gpus=None, max_epochs=1):
        self.root_gpu = gpus[0] if gpus else None
        self.max_epochs = max_epochs

    def fit(self, module, loader):
        self.optimizer = module.configure_optimizers()
        if self.root_gpu is not None:
            self.single_gpu_train(module, loader)
        else:
            self.run_pretrain_routine(module, loader)

    def single_gpu_train(self, module, loader):
        module.model.to(self.root_gpu)
        self.run_pretrain_routine(module, loader)

    def transfer(self, batch):
        return [b.to(self.root_gpu) if self.root_gpu else b for b in batch]

    def run_pretrain_routine(self, module, loader):
        for epoch in range(self.max_epochs):
            for batch in loader:
                self.optimizer.zero_grad()
                loss = module.training_step(self.transfer(batch))
                loss.backward()
                self.optimizer.step()
            print("epoch", epoch, float(loss))

if __name__ == "__main__":
    dims = (20, 30, 10)
    x = torch.stack([torch.randint(0, d, (64,)) for d in dims], dim=1)
    data = TensorDataset(x, torch.randint(0, 2, (64,)).float())
    Trainer(gpus=["cuda:0"], max_epochs=2).fit(
        LitModule(FactorizationMachine(dims), lr=0.05), DataLoader(data, batch_size=16))
