# cause: embedding-streams-on-different-devices|block-split-across-devices
# guilty: sound
"""Two encoders side by side, one on each GPU; their features are joined where the first one is."""
import torch
from accelerate import dispatch_model
from torch import nn


class Both(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.look, self.hear = nn.Linear(4, width), nn.Linear(5, width)
        self.out = nn.Linear(2 * width, 2)

    def forward(self, image, sound):
        image, sound = self.look(image), self.hear(sound)
        return self.out(torch.cat((image, sound), -1))


model = dispatch_model(Both().eval(), {"look": 0, "hear": 1, "out": 0})
with torch.no_grad():
    print(model(torch.randn(2, 4), torch.randn(2, 5)).shape)
