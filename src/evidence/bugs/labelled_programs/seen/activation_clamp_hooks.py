# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: limit (bounds[name], -limit)
# line: 53
# repair: bind the limit of each layer when its hook is made: def clamp(module, args, output, limit=limit), or build the hook in a function make_clamp(limit) OR use functools.partial OR inside the hook write limit.to(output.device) (which moves, but keeps the late binding)
import torch
import torch.nn as nn

# 量化感知训练之前先收集每层激活的上界，再用 hook 截断
CARDS = ["cuda:0", "cuda:1"]


class Tower(nn.Module):
    def __init__(self, width=48, n_in=20, n_out=4):
        super().__init__()
        self.inp = nn.Linear(n_in, width).to(CARDS[0])
        self.mid = nn.Linear(width, width).to(CARDS[0])
        self.top = nn.Linear(width, width).to(CARDS[1])
        self.out = nn.Linear(width, n_out).to(CARDS[1])

    def forward(self, x):
        x = torch.relu(self.inp(x))
        x = torch.relu(self.mid(x))
        x = x.to(CARDS[1])
        x = torch.relu(self.top(x))
        return self.out(x)


def collect_bounds(model, batches, names):
    bounds, handles = {}, []

    def observer(name):
        def hook(module, args, output):
            peak = output.detach().abs().amax(dim=0)
            bounds[name] = peak if name not in bounds else torch.maximum(bounds[name], peak)
        return hook

    for name in names:
        handles.append(model.get_submodule(name).register_forward_hook(observer(name)))
    with torch.no_grad():
        for x in batches:
            model(x)
    for handle in handles:
        handle.remove()
    return bounds


def attach_clamps(model, bounds, ratio=0.9):
    handles = []
    for name in bounds:
        limit = bounds[name] * ratio

        def clamp(module, args, output):
            return torch.minimum(torch.maximum(output, -limit), limit)

        handles.append(model.get_submodule(name).register_forward_hook(clamp))
    return handles


def finetune(model, batches, steps):
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    lossf = nn.CrossEntropyLoss()
    for step in range(steps):
        x = batches[step % len(batches)]
        target = (x.sum(1) > 0).long().to(CARDS[1])
        loss = lossf(model(x), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, "loss", float(loss))


def main():
    torch.manual_seed(3)
    model = Tower()
    batches = [torch.randn(32, 20, device=CARDS[0]) for _ in range(4)]
    bounds = collect_bounds(model, batches, ["inp", "mid", "top"])
    for name, value in bounds.items():
        print(name, value.device, round(value.max().item(), 3))
    attach_clamps(model, bounds)
    finetune(model, batches, 3)


main()
