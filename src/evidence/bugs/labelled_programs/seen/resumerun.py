# cause: optimizer-state-on-other-device
# guilty: exp_avg (optimizer state (exp_avg, exp_avg_sq) or opt.state)
import os
import tempfile
import torch
import torch.nn as nn


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))


def save(path, model, opt, step):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, path)


def restore(path, device):
    model = make()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["opt"])
    model.to(device)
    return model, opt, state["step"]


def fit(model, opt, device, start, stop):
    for step in range(start, stop):
        g = torch.Generator().manual_seed(step)
        x = torch.randn(16, 6, generator=g).to(device)
        loss = (model(x).squeeze(-1) - x.sum(1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    where = os.path.join(tempfile.mkdtemp(), "last.pt")
    m = make().to("cuda:0")
    o = torch.optim.Adam(m.parameters(), 1e-2)
    print("first", fit(m, o, "cuda:0", 0, 3))
    save(where, m, o, 3)
    m, o, at = restore(where, "cuda:0")
    print("resumed", fit(m, o, "cuda:0", at, at + 3))
