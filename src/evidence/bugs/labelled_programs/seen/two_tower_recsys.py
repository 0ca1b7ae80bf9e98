# cause: input-not-on-embedding-device
# guilty: user_ids
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    users: int = 200
    items: int = 500
    dim: int = 16
    batch: int = 32
    device: str = "cuda"


class TwoTower(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.user_table = nn.Embedding(cfg.users, cfg.dim)
        self.item_table = nn.Embedding(cfg.items, cfg.dim)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, user_ids, item_ids):
        u = self.user_table(user_ids)
        v = self.item_table(item_ids)
        return (u * v).sum(-1) + self.bias


def loader(cfg):
    n = 256
    ds = TensorDataset(
        torch.randint(0, cfg.users, (n,)), torch.randint(0, cfg.items, (n,)), torch.randint(0, 2, (n,)).float()
    )
    return DataLoader(ds, batch_size=cfg.batch, shuffle=True)


def fit(cfg: Config) -> float:
    model = TwoTower(cfg).to(cfg.device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    bce = nn.BCEWithLogitsLoss()
    total = 0.0
    for users, items, clicked in loader(cfg):
        clicked = clicked.to(cfg.device)
        score = model(users, items)
        loss = bce(score, clicked)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total


print(fit(Config()))
