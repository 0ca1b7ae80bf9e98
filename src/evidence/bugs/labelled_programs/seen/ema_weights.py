# cause: module-left-on-other-device|tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: s (self.shadow[name])
"""用 EMA 平滑权重的训练循环，评估时换上影子权重。"""
import torch
import torch.nn as nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
        self.backup = {}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            if name in self.shadow:
                s = self.shadow[name]
                s.mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)

    def apply(self, model):
        for name, p in model.named_parameters():
            self.backup[name] = p.data.clone()
            p.data.copy_(self.shadow[name])

    def restore(self, model):
        for name, p in model.named_parameters():
            p.data.copy_(self.backup[name])
        self.backup.clear()


def build():
    return nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 1))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        err = (model(x).squeeze(-1) - y).abs().mean()
    model.train()
    return err.item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    model = build()
    ema = EMA(model)
    model.to(device)                       # 模型放到第二张卡
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randn(64, 10)
    target = data.sum(dim=1)
    val_x, val_y = data[:16].to(device), target[:16].to(device)
    for epoch in range(2):
        for i in range(16, 64, 16):
            xb = data[i:i + 16].to(device)
            yb = target[i:i + 16].to(device)
            loss = nn.functional.mse_loss(model(xb).squeeze(-1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model)
        ema.apply(model)
        print(epoch, evaluate(model, val_x, val_y))
        ema.restore(model)


main()
