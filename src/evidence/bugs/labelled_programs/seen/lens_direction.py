# cause: extra-input-on-wrong-device|lm-head-or-tied-weight-split|block-split-across-devices|tensor-created-on-wrong-device
# guilty: unit (direction)
# after: TransformerLensOrg/TransformerLens#1507
import torch
from torch import nn


class Split(nn.Module):
    def __init__(self, width=8, words=30):
        super().__init__()
        self.embed = nn.Embedding(words, width).to("cuda:0")
        self.early = nn.Linear(width, width).to("cuda:0")
        self.late = nn.Linear(width, width).to("cuda:1")
        self.unembed = nn.Linear(width, words, bias=False).to("cuda:1")

    def forward(self, ids):
        h = self.early(self.embed(ids)).relu()
        h = self.late(h.to("cuda:1")).relu()
        return self.unembed(h)


def removed(model, layer, token):
    direction = model.unembed.weight[token].detach()
    unit = direction / direction.norm()

    def ablate(module, args, out):
        return out - (out @ unit)[..., None] * unit

    return layer.register_forward_hook(ablate)


model = Split().eval()
hook = removed(model, model.early, 7)
with torch.no_grad():
    print(model(torch.tensor([[3, 7, 9]], device="cuda:0")).argmax(-1))
