# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: self.std (std or self.mean)
"""Electricity transformer temperature forecasts with a small linear decomposition model."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class StandardScaler:
    def fit(self, data):
        self.mean = data.mean(0)
        self.std = data.std(0)

    def transform(self, data):
        return (data - self.mean) / self.std

    def inverse_transform(self, data):
        return data * self.std + self.mean


class Hourly(Dataset):
    def __init__(self, args):
        raw = torch.randn(200, args.channels).cumsum(0)
        self.scaler = StandardScaler()
        self.scaler.fit(raw[:150])
        self.data = self.scaler.transform(raw)
        self.seq, self.pred = args.seq_len, args.pred_len

    def __len__(self):
        return len(self.data) - self.seq - self.pred + 1

    def __getitem__(self, i):
        return self.data[i:i + self.seq], self.data[i + self.seq:i + self.seq + self.pred]


class DLinear(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.pool = nn.AvgPool1d(5, 1, 2, count_include_pad=False)
        self.trend, self.rest = (nn.Linear(args.seq_len, args.pred_len) for _ in range(2))

    def forward(self, x):
        x = x.transpose(1, 2)
        t = self.pool(x)
        return (self.trend(t) + self.rest(x - t)).transpose(1, 2)


class Exp:
    def __init__(self, args):
        self.args = args
        self.device = torch.device(f"cuda:{args.gpu}")
        self.model = DLinear(args).to(self.device)
        self.train_set = Hourly(args)

    def train(self):
        opt = torch.optim.Adam(self.model.parameters(), 1e-3)
        for bx, by in DataLoader(self.train_set, 32, shuffle=True):
            bx, by = bx.to(self.device), by.to(self.device)
            out = self.model(bx)
            if self.args.inverse:
                out = self.train_set.scaler.inverse_transform(out)
                by = self.train_set.scaler.inverse_transform(by)
            loss = nn.functional.mse_loss(out, by)
            opt.zero_grad()
            loss.backward()
            opt.step()


p = argparse.ArgumentParser()
p.add_argument("--seq_len", type=int, default=48)
p.add_argument("--pred_len", type=int, default=12)
p.add_argument("--channels", type=int, default=7)
p.add_argument("--gpu", type=int, default=0)
p.add_argument("--inverse", action="store_true", default=True)
Exp(p.parse_args()).train()
