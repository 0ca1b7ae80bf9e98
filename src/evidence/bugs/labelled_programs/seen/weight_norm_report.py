# cause: offload-hook-bypassed|meta-tensor-not-materialized
# guilty: value (p)
# line: 48
# repair: read the offloaded weight where accelerate keeps it: for modules with an offloading hook take module._hf_hook.weights_map[...] (or wrap the read in accelerate.utils.align_module_device(module)) OR make the report before dispatch_model
import torch
import torch.nn as nn
from accelerate import dispatch_model

# 显存不够：后半部分放在内存里，推理前先打印每层权重的范数做检查


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.BatchNorm1d(dim)
        self.lin = nn.Linear(dim, dim)

    def forward(self, x):
        return x + torch.relu(self.lin(self.norm(x)))


class FraudNet(nn.Module):
    def __init__(self, n_in=16, dim=32, depth=4):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.blocks = nn.ModuleList(Residual(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return torch.sigmoid(self.out(x)).squeeze(-1)


def plan_for(model, on_gpu):
    plan = {"inp": "cuda:0", "out": "cuda:0"}
    for i in range(len(model.blocks)):
        plan[f"blocks.{i}"] = "cuda:0" if i < on_gpu else "cpu"
    return plan


def norm_report(model):
    rows = []
    for name, p in model.named_parameters():
        if p.dim() > 1:
            value = p.detach().float().pow(2).mean().sqrt()
            rows.append((name, value.item()))
    return rows


def check(rows, low=1e-4, high=10.0):
    for name, value in rows:
        flag = "" if low < value < high else "  <-- 异常"
        print(f"{name:24s} {value:.4f}{flag}")


@torch.no_grad()
def score(model, table, batch=32):
    parts = []
    for rows in table.split(batch):
        parts.append(model(rows.to("cuda:0")).cpu())
    return torch.cat(parts)


def main():
    torch.manual_seed(5)
    model = FraudNet().eval()
    model = dispatch_model(model, plan_for(model, on_gpu=2), main_device="cuda:0")
    check(norm_report(model))
    risk = score(model, torch.randn(100, 16))
    print("mean risk", risk.mean().item(), "alarms", int((risk > 0.6).sum()))


if __name__ == "__main__":
    main()
