# cause: tensor-created-on-wrong-device|optimizer-state-on-other-device
# guilty: mask
# line: 51
# repair: in main call model.spread(...) before prune(model, 0.6), so that the masks lie with their weights, OR in hold_sparsity let the hook move it, `grad * mask.to(grad.device)`
"""Prune a network by magnitude and fine-tune it with the zeros held in place."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SkipNet(nn.Module):
    def __init__(self, d_in, dim, depth, classes):
        super().__init__()
        self.inlet = nn.Linear(d_in, dim)
        self.hidden = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.outlet = nn.Linear(dim, classes)

    def spread(self, first, second):
        half = len(self.hidden) // 2
        self.inlet.to(first)
        self.hidden[:half].to(first)
        self.hidden[half:].to(second)
        self.outlet.to(second)
        return self

    def forward(self, x):
        x = F.relu(self.inlet(x.to(self.inlet.weight.device)))
        for layer in self.hidden:
            x = x.to(layer.weight.device)
            x = x + F.relu(layer(x))
        return self.outlet(x)


@torch.no_grad()
def prune(model, fraction):
    masks = {}
    for name, p in model.named_parameters():
        if p.dim() < 2:
            continue
        threshold = p.abs().flatten().kthvalue(int(fraction * p.numel())).values
        masks[name] = (p.abs() > threshold).float()
        p.mul_(masks[name])
    return masks


def hold_sparsity(model, masks):
    handles = []
    for name, p in model.named_parameters():
        if name in masks:
            def zero_pruned(grad, mask=masks[name]):
                return grad * mask
            handles.append(p.register_hook(zero_pruned))
    return handles


def sparsity(model, masks):
    zeros = total = 0
    for name, p in model.named_parameters():
        if name in masks:
            zeros += (p == 0).sum().item()
            total += p.numel()
    return zeros / total


def main():
    torch.manual_seed(0)
    model = SkipNet(20, 48, 4, 5)
    masks = prune(model, 0.6)
    hold_sparsity(model, masks)
    model.spread("cuda:0", "cuda:1")
    print("sparsity", sparsity(model, masks))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(256, 20)
    y = x[:, :5].argmax(1)
    for epoch in range(2):
        for rows in torch.randperm(256).split(64):
            logits = model(x[rows])
            loss = F.cross_entropy(logits, y[rows].to(logits.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item(), "sparsity", sparsity(model, masks))


if __name__ == "__main__":
    main()
