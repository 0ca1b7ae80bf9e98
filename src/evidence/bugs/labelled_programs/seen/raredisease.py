# cause: loss-or-label-on-other-device|module-left-on-other-device
# guilty: pos_weight (criterion.pos_weight)
import argparse
import torch
import torch.nn as nn


def parse(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--gpu", type=int, default=1)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--labels", type=int, default=5)
    return p.parse_args(argv)


def positives(y):
    n = y.sum(0).clamp(min=1)
    return (len(y) - n) / n


def main(args):
    torch.manual_seed(0)
    device = f"cuda:{args.gpu}"
    x = torch.randn(40, 7)
    y = (torch.rand(40, args.labels) < 0.15).float()
    model = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, args.labels))
    criterion = nn.BCEWithLogitsLoss(pos_weight=positives(y))
    model.to(device)
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 10, shuffle=True)
    for epoch in range(args.epochs):
        for bx, by in data:
            bx, by = bx.to(device), by.to(device)
            loss = criterion(model(bx), by)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main(parse([]))
