# cause: numpy-of-gpu-tensor
# guilty: t (tensors, bank, codes)
# line: 41
# repair: in Extractor.run bring each batch of codes to the host before it is kept: codes.append(code.cpu()) OR to_numpy: t.detach().cpu().numpy()
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ContrastiveEncoder(nn.Module):
    def __init__(self, n_in=32, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)

    def loss(self, a, b, tau=0.2):
        logits = self(a) @ self(b).t() / tau
        return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


class Extractor:
    def __init__(self, model, device):
        self.model, self.device = model, device

    @torch.no_grad()
    def run(self, loader):
        self.model.eval()
        codes, labels = [], []
        for x, y in loader:
            code = self.model(x.to(self.device))
            codes.append(code)
            labels.append(y)
        self.model.train()
        return torch.cat(codes), torch.cat(labels)


def to_numpy(*tensors):
    return [t.detach().numpy() for t in tensors]


class KnnReport:
    def __init__(self, k=5):
        self.k = k

    def __call__(self, bank, bank_labels, query, query_labels):
        bank, bank_labels, query, query_labels = to_numpy(bank, bank_labels, query, query_labels)
        sims = query @ bank.T
        near = np.argsort(-sims, axis=1)[:, : self.k]
        votes = bank_labels[near]
        guess = np.array([np.bincount(row).argmax() for row in votes])
        per_class = {int(c): float((guess == query_labels)[query_labels == c].mean()) for c in np.unique(query_labels)}
        return float((guess == query_labels).mean()), per_class


def clusters(n, centres, noise=0.6):
    y = torch.randint(0, len(centres), (n,))
    return torch.utils.data.TensorDataset(centres[y] + noise * torch.randn(n, centres.shape[1]), y)


def pretrain(model, data, device, epochs):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for x, _ in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True):
            x = x.to(device)
            loss = model.loss(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cuda:0"
    centres = torch.randn(4, 32)
    train, test = clusters(160, centres), clusters(60, centres)
    encoder = ContrastiveEncoder().to(device)
    print("loss", pretrain(encoder, train, device, epochs=2))
    extractor = Extractor(encoder, device)
    loaders = [torch.utils.data.DataLoader(d, batch_size=40) for d in (train, test)]
    bank, query = extractor.run(loaders[0]), extractor.run(loaders[1])
    print("knn", KnnReport(k=5)(*bank, *query))
