# cause: cache-or-beam-state-on-wrong-device|extra-input-on-wrong-device
# guilty: index (assignment, info["assignment"])
# line: 25
# repair: in unmerge (or at the end of MergedEncoder.forward) move the assignment to the tokens: `assignment = info["assignment"].to(tokens.device)` before the gather
"""Token merging: similar patch tokens are averaged early and spread out again at the end."""
import torch
import torch.nn as nn


def merge(tokens, keep, info):
    """Average every token into the nearest of the first `keep` ones."""
    anchors = tokens[:, :keep]
    sim = nn.functional.normalize(tokens, dim=-1) @ nn.functional.normalize(anchors, dim=-1).transpose(1, 2)
    assignment = sim.argmax(dim=-1)
    info["assignment"] = assignment
    index = assignment.unsqueeze(-1).expand_as(tokens)
    out = torch.zeros_like(anchors).scatter_add(1, index, tokens)
    counts = torch.zeros_like(anchors).scatter_add(1, index, torch.ones_like(tokens))
    return out / counts.clamp(min=1.0)


def unmerge(tokens, info):
    assignment = info["assignment"]
    index = assignment.unsqueeze(-1).expand(-1, -1, tokens.shape[-1])
    return tokens.gather(1, index)


class MergedEncoder(nn.Module):
    def __init__(self, dim=32, depth=4, keep=8, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.keep = keep
        self.devices = devices
        self.patch = nn.Linear(12, dim).to(devices[0])
        layers = [nn.TransformerEncoderLayer(dim, 4, dim * 2, batch_first=True) for _ in range(depth)]
        cut = depth // 2
        self.early = nn.ModuleList(layers[:cut]).to(devices[0])
        self.late = nn.ModuleList(layers[cut:]).to(devices[1])
        self.head = nn.Linear(dim, 5).to(devices[1])
        self.info = {}

    def forward(self, patches):
        x = self.patch(patches.to(self.devices[0]))
        for layer in self.early:
            x = layer(x)
        x = merge(x, self.keep, self.info)
        x = x.to(self.devices[1])
        for layer in self.late:
            x = layer(x)
        return self.head(unmerge(x, self.info))


torch.manual_seed(0)
model = MergedEncoder().eval()
with torch.no_grad():
    for step in range(2):
        logits = model(torch.randn(2, 24, 12))
        print(step, logits.argmax(-1)[0].tolist())
