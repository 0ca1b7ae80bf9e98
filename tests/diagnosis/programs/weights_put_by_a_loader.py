# cause: block-split-across-devices
import torch
from accelerate import dispatch_model
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(3, 8, 3, padding=1)
        self.places = nn.Embedding(16, 8)

    def forward(self, sound):
        sound = torch.relu(self.stem(sound)).transpose(1, 2)
        at = torch.arange(sound.shape[1], device=sound.device)
        return sound + self.places(at)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.reader = Reader()
        self.head = nn.Linear(8, 2)

    def forward(self, sound):
        return self.head(self.reader(sound))


with torch.device("meta"):
    model = Model()
where = {"reader.stem": 0, "reader.places": 1, "head": 1}
for name, weight in Model().state_dict().items():
    part, _, last = name.rpartition(".")
    setattr(model.get_submodule(part), last, nn.Parameter(weight.to(f"cuda:{where[part]}")))
model = dispatch_model(model, where)
model(torch.randn(2, 3, 10).to("cuda:0"))
