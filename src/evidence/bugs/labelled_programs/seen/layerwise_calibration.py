# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices
# guilty: mask (kwargs["mask"] or self.kwargs["mask"])
# after: casper-hansen/AutoAWQ#638
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        if mask is not None:
            scores = scores + mask
        return x + scores.softmax(-1) @ self.v(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def inputs(self, ids):
        size = ids.shape[1]
        mask = torch.full((size, size), float("-inf"), device=ids.device).triu(1)
        return self.table(ids), {"mask": mask}


def calibrate(model, ids, gpus):
    model.table.to(gpus[0])
    hidden, kwargs = model.inputs(ids.to(gpus[0]))
    for number, layer in enumerate(model.layers):
        gpu = gpus[number % len(gpus)]
        layer.to(gpu)
        hidden = hidden.to(gpu)
        hidden = layer(hidden, **kwargs)
        layer.cpu()
    return hidden


with torch.no_grad():
    print(calibrate(Model(), torch.randint(0, 30, (2, 5)), ["cuda:0", "cuda:1"]).shape)
