# cause: optimizer-state-on-other-device
# guilty: self.shadow[name] (shadow)
# line: 40
# repair: in TailAverage.load_state_dict move each loaded copy to the device of its parameter (`value.to(param.device)`) OR load the checkpoint straight to the parameters' devices
"""Glacier melt regressor on two cards: training is continued from a file, with averaged weights."""
import os
import tempfile
import torch
import torch.nn as nn


class MeltNet(nn.Module):
    def __init__(self, cards):
        super().__init__()
        self.cards = cards
        self.series = nn.GRU(6, 16, batch_first=True).to(cards[0])
        self.readout = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).to(cards[1])

    def forward(self, x):
        h = self.series(x.to(self.cards[0]))[0][:, -1]
        return self.readout(h.to(self.cards[1])).squeeze(-1)


class TailAverage:
    """Running mean of the weights over the last part of training."""

    def __init__(self, model, start=1):
        self.model, self.start = model, start
        self.count, self.shadow = 0, {}

    @torch.no_grad()
    def update(self, step):
        if step < self.start:
            return
        self.count += 1
        for name, param in self.model.named_parameters():
            if name not in self.shadow:
                self.shadow[name] = param.detach().clone()
            else:
                self.shadow[name].lerp_(param, 1.0 / self.count)

    def state_dict(self):
        return {"count": self.count, "shadow": dict(self.shadow)}

    def load_state_dict(self, state):
        self.count = state["count"]
        self.shadow = {name: value.clone() for name, value in state["shadow"].items()}


class Run:
    def __init__(self, cards):
        self.model = MeltNet(cards)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.average = TailAverage(self.model)
        self.step_no = 0

    def parts(self):
        return {"model": self.model, "opt": self.opt, "average": self.average}

    def save(self, path):
        torch.save({"step": self.step_no, **{k: v.state_dict() for k, v in self.parts().items()}}, path)

    def restore(self, path):
        state = torch.load(path, map_location="cpu")
        self.step_no = state["step"]
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        return self

    def train(self, steps):
        for _ in range(steps):
            x = torch.randn(8, 12, 6)
            out = self.model(x)
            loss = (out - x.mean((1, 2)).to(out.device)).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.step_no += 1
            self.average.update(self.step_no)
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "last.pt")
        first = Run(("cuda:0", "cuda:1"))
        print("first", first.train(3))
        first.save(file)
        second = Run(("cuda:0", "cuda:1")).restore(file)
    print("second", second.train(3), second.average.count)
