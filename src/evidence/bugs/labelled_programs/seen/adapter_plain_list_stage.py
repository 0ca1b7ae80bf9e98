# cause: adapter-weights-on-other-device|module-left-on-other-device
# guilty: self.down (self.down.weight, the adapter's weights)
# line: 22
# repair: keep the adapters in an nn.ModuleList in AdaptedStage.__init__ (self.adapters = nn.ModuleList(...)) so that stage.to(device) moves them OR move each adapter in AdaptedStage.place as well
"""Language adapters between frozen layers, stages placed one after the other."""
import torch
import torch.nn.functional as F
from torch import nn


class BottleneckAdapter(nn.Module):
    def __init__(self, width, bottleneck):
        super().__init__()
        self.norm_eps = 1e-5
        self.down = nn.Linear(width, bottleneck)
        self.up = nn.Linear(bottleneck, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        h = F.layer_norm(x, x.shape[-1:], eps=self.norm_eps)
        return x + self.up(F.relu(self.down(h)))


class FrozenLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True)
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.layer(x)


class AdaptedStage(nn.Module):
    def __init__(self, layers, make_adapter):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.adapters = [make_adapter() for _ in layers]
        self.device = torch.device("cpu")

    def place(self, device):
        self.device = torch.device(device)
        return self.to(self.device)

    def adapter_parameters(self):
        for adapter in self.adapters:
            yield from adapter.parameters()

    def forward(self, x):
        x = x.to(self.device)
        for layer, adapter in zip(self.layers, self.adapters):
            x = adapter(layer(x))
        return x


class AdaptedReader(nn.Module):
    def __init__(self, vocab=110, width=32, heads=4, depth=4, stages=2, languages=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        per = depth // stages
        self.stages = nn.ModuleList(
            AdaptedStage([FrozenLayer(width, heads) for _ in range(per)],
                         lambda: BottleneckAdapter(width, 8)) for _ in range(stages))
        self.classify = nn.Linear(width, languages)

    def place(self, devices):
        self.embed.to(devices[0])
        for stage, device in zip(self.stages, devices):
            stage.place(device)
        self.classify.to(devices[-1])
        return self

    def trainable(self):
        yield from self.classify.parameters()
        for stage in self.stages:
            yield from stage.adapter_parameters()

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for stage in self.stages:
            x = stage(x)
        return self.classify(x.mean(1))


def sentences(size):
    language = torch.randint(0, 3, (size,))
    ids = torch.randint(0, 30, (size, 14)) + 35 * language[:, None]
    return ids, language


if __name__ == "__main__":
    torch.manual_seed(0)
    reader = AdaptedReader().place(["cuda:0", "cuda:1"])
    optimizer = torch.optim.Adam(reader.trainable(), lr=1e-3)
    for step in range(3):
        ids, language = sentences(12)
        logits = reader(ids)
        loss = F.cross_entropy(logits, language.to(logits.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
