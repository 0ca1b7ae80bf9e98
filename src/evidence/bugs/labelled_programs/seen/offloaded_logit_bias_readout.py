# cause: offload-hook-bypassed
# guilty: table (self.model.embed.weight, weight)
# line: 37
# repair: do not read the offloaded weight directly: give the model a method on a hooked module (a Readout module that owns the tied weight, called through its forward) OR keep "embed" off the host in the map (place it on cuda:0) OR get the value from model.embed._hf_hook.weights_map["weight"] and move it to states.device
"""Nearest-word readout of a text encoder whose embedding table lies on the host."""
import torch
import torch.nn as nn
from accelerate import dispatch_model

WORDS = 200


class Encoder(nn.Module):
    def __init__(self, dim=24, layers=3):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 48, batch_first=True, dropout=0.0) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class WordReadout:
    """Which words is a hidden state closest to?"""

    def __init__(self, model, top=3):
        self.model = model
        self.top = top

    def nearest(self, states):
        table = self.model.embed.weight
        scores = states @ table.T
        return scores.topk(self.top, dim=-1).indices

    def run(self, ids):
        states = self.model(ids)
        return self.nearest(states[:, -1])


def place(model):
    plan = {"embed": "cpu", "norm": "cuda:1"}
    for i in range(len(model.layers)):
        plan[f"layers.{i}"] = "cuda:0" if i < 2 else "cuda:1"
    return dispatch_model(model, device_map=plan, main_device="cuda:0")


if __name__ == "__main__":
    torch.manual_seed(4)
    encoder = place(Encoder().eval())
    readout = WordReadout(encoder)
    with torch.no_grad():
        for _ in range(2):
            print(readout.run(torch.randint(0, WORDS, (2, 7), device="cuda:0")).tolist())
