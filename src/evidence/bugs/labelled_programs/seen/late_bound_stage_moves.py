# cause: input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: x (self.conv.weight)
# line: 19
# repair: in attach_moves bind the card when the hook is made, lambda module, args, card=card: ... (or functools.partial) OR move to next(module.parameters()).device inside the hook
"""Image classifier cut into stages; hooks bring each stage its input."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ConvStage(nn.Module):
    def __init__(self, inside, outside, repeat=2):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, stride=2, padding=1)
        self.rest = nn.ModuleList(nn.Conv2d(outside, outside, 3, padding=1) for _ in range(repeat))

    def forward(self, x):
        x = F.relu(self.conv(x))
        for conv in self.rest:
            x = x + F.relu(conv(x))
        return x


class Pool(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.linear = nn.Linear(channels, classes)

    def forward(self, x):
        return self.linear(x.mean((2, 3)))


def build_stages(classes=6):
    return nn.ModuleList([ConvStage(3, 8), ConvStage(8, 16), Pool(16, classes)])


def attach_moves(stages, cards):
    """Puts every stage on its card and makes it fetch its own input."""
    handles = []
    for stage, card in zip(stages, cards):
        stage.to(card)
        handles.append(stage.register_forward_pre_hook(lambda module, args: (args[0].to(card),)))
    return handles


class StagedModel(nn.Module):
    def __init__(self, stages):
        super().__init__()
        self.stages = stages

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


def evaluate(model, loader):
    right = seen = 0
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            logits = model(images)
            right += (logits.argmax(-1) == labels.to(logits.device)).sum().item()
            seen += len(labels)
    model.train()
    return right / seen


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(36, 3, 32, 32), torch.randint(0, 6, (36,)))
    loader = DataLoader(data, batch_size=12, shuffle=True)
    stages = build_stages()
    attach_moves(stages, ["cuda:0", "cuda:1", "cuda:1"])
    model = StagedModel(stages)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels.to(logits.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), evaluate(model, loader))


if __name__ == "__main__":
    main()
