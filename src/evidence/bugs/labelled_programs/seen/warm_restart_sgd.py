# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: opt
import io
import torch
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 3))


def batch(n=32):
    x = torch.randn(n, 10)
    return x, x[:, :3].argmax(1)


def fit(model, opt, device, steps):
    for _ in range(steps):
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def first_run(device):
    model = make_model().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, foreach=False)
    print("run 1", fit(model, opt, device, 10))
    blob = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, blob)
    blob.seek(0)
    return blob


def restore(blob):
    saved = torch.load(blob, map_location="cpu")
    model = make_model()
    model.load_state_dict(saved["model"])
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, foreach=False)
    opt.load_state_dict(saved["opt"])
    for group in opt.param_groups:
        group["lr"] = 0.02
    return model, opt


def accuracy(model, device):
    model.eval()
    with torch.no_grad():
        x, y = batch(200)
        hit = model(x.to(device)).argmax(1).cpu() == y
    model.train()
    return hit.float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    blob = first_run(torch.device("cuda:1"))
    model, opt = restore(blob)
    print("restored accuracy", accuracy(model, torch.device("cpu")))
    device = torch.device("cuda:0")
    model.to(device)
    print("on gpu accuracy", accuracy(model, device))
    print("run 2", fit(model, opt, device, 10))
