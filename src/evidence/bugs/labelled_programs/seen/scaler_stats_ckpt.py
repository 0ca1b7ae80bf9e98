# cause: checkpoint-map-location|hard-coded-device
# guilty: self.center
import argparse
import torch
import torch.nn as nn


def pretrain(path, dev):
    x = torch.randn(1000, 8, device=dev) * 3 + 1
    reg = nn.Linear(8, 1).to(dev)
    torch.save({"reg": reg.state_dict(), "center": x.mean(0), "spread": x.std(0)}, path)


class Standardizer:
    def __init__(self, center, spread):
        self.center, self.spread = center, spread

    def __call__(self, x):
        return (x - self.center) / self.spread.clamp_min(1e-5)


def serve(path, dev, requests):
    ckpt = torch.load(path, map_location="cuda:0")
    reg = nn.Linear(8, 1).to(dev)
    reg.load_state_dict(ckpt["reg"])
    prep = Standardizer(ckpt["center"], ckpt["spread"])
    answers = []
    with torch.no_grad():
        for r in requests:
            x = torch.as_tensor(r, dtype=torch.float32, device=dev)
            answers.append(reg(prep(x)).item())
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-gpu", default="cuda:0")
    parser.add_argument("--serve-gpu", default="cuda:1")
    args = parser.parse_args([])
    pretrain("reg.pt", torch.device(args.train_gpu))
    rows = [[float(i + j) for j in range(8)] for i in range(4)]
    for value in serve("reg.pt", torch.device(args.serve_gpu), rows):
        print(f"{value:+.4f}")
