# cause: quantized-state-on-other-device
# guilty: self.scale
import torch
from torch import nn
import torch.nn.functional as F


class Int8Linear(nn.Module):
    """Weight-only absmax quantisation, one scale per output row."""

    def __init__(self, linear):
        super().__init__()
        w = linear.weight.data
        self.scale = w.abs().amax(dim=1) / 127
        self.register_buffer("qweight", (w / self.scale[:, None]).round().to(torch.int8))
        self.register_buffer("bias", linear.bias.data.clone() if linear.bias is not None else None)

    def forward(self, x):
        y = F.linear(x, self.qweight.to(x.dtype))
        y = torch.mul(y, self.scale)
        return y if self.bias is None else y + self.bias


def quantise(module, skip=("head",)):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name not in skip:
            setattr(module, name, Int8Linear(child))
        else:
            quantise(child, skip)
    return module


class SentimentGRU(nn.Module):
    def __init__(self, vocab=80, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gate, self.cand = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        e = self.embed(ids)
        h = torch.zeros_like(e[:, 0])
        for x in e.unbind(1):
            xh = torch.cat([x, h], dim=-1)
            z = torch.sigmoid(self.gate(xh))
            h = (1 - z) * h + z * torch.tanh(self.cand(xh))
        return self.head(h)


if __name__ == "__main__":
    torch.manual_seed(4)
    model = quantise(SentimentGRU().eval()).to("cuda:1")
    reviews = torch.randint(0, 80, (5, 9)).to("cuda:1")
    with torch.inference_mode():
        print(model(reviews).softmax(-1))
