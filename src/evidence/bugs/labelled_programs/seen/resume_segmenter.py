# cause: optimizer-state-on-other-device|optimizer-built-before-move
# guilty: optimizer.state (exp_avg or exp_avg_sq)
import os
import torch
import torch.nn as nn

CKPT = "resume_segmenter.pt"


def make():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))


def loop(model, optimizer, device, steps):
    for _ in range(steps):
        img = torch.rand(2, 1, 24, 24, device=device)
        tgt = (img[:, 0] > 0.5).long()
        loss = nn.functional.cross_entropy(model(img), tgt)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def first_run(device):
    model = make().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loop(model, optimizer, device, 3)
    torch.save({"model": model.state_dict(), "optim": optimizer.state_dict(), "epoch": 3}, CKPT)


def resume(device):
    state = torch.load(CKPT, map_location="cpu")
    model = make()
    model.load_state_dict(state["model"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(state["optim"])
    model.to(device)
    return loop(model, optimizer, device, 3)


if __name__ == "__main__":
    dev = torch.device("cuda")
    first_run(dev)
    print("resumed", resume(dev))
    os.remove(CKPT)
