# cause: meta-tensor-not-materialized|lm-head-or-tied-weight-split
# guilty: model.head.weight (self.head.weight, module, model.get_submodule(name))
# line: 79
# repair: in load() tie the head again after the shards were assigned, model.head.weight = model.embed.weight (or write embed.weight under head.weight too), because load_state_dict(assign=True) puts a new parameter into embed and the head keeps the empty one; OR build the skeleton without meta
"""Loads a tied language model shard by shard into an empty skeleton and serves it from two cards."""
import json
import tempfile
from pathlib import Path

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        value, gate = self.mix(self.norm(x)).chunk(2, -1)
        steps = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return x + self.out(torch.sigmoid(gate) * value.cumsum(1) / steps)


class TiedLM(nn.Module):
    def __init__(self, vocab=100, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for block in self.blocks:
            x = block(x.to(block.out.weight.device))
        return self.head(self.norm(x).to(self.head.weight.device))


def save_shards(folder, depth, per_shard=2):
    torch.manual_seed(0)
    state = {k: v for k, v in TiedLM(depth=depth).state_dict().items() if k != "head.weight"}
    index, shards = {}, {}
    for key, value in state.items():
        number = int(key.split(".")[1]) // per_shard if key.startswith("blocks.") else 0
        shard = f"shard-{number:02d}.pt"
        shards.setdefault(shard, {})[key] = value
        index[key] = shard
    for shard, part in shards.items():
        torch.save(part, folder / shard)
    (folder / "index.json").write_text(json.dumps(index))


def load(folder, depth):
    with torch.device("meta"):
        model = TiedLM(depth=depth)
    index = json.loads((folder / "index.json").read_text())
    expected = {name for name, _ in model.named_parameters()}
    if expected - set(index):
        raise RuntimeError(f"not in the checkpoint: {sorted(expected - set(index))}")
    for shard in sorted(set(index.values())):
        part = torch.load(folder / shard, map_location="cpu")
        model.load_state_dict(part, strict=False, assign=True)
    return model.eval()


def plan(depth, cards):
    table = {"embed": cards[0]}
    table.update({f"blocks.{i}": cards[i * len(cards) // depth] for i in range(depth)})
    table.update({"norm": cards[-1], "head": cards[0]})
    return table


def spread(model, table):
    for name, card in table.items():
        model.get_submodule(name).to(card)
    return model


@torch.inference_mode()
def complete(model, ids, steps):
    for _ in range(steps):
        token = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, token.to(ids.device)], 1)
    return ids[0, -steps:].tolist()


def main():
    depth = 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_shards(folder, depth)
        model = load(folder, depth)
    spread(model, plan(depth, ["cuda:0", "cuda:1"]))
    for prompt in ([4, 8, 15], [16, 23]):
        print(prompt, complete(model, torch.tensor([prompt]), steps=5))


if __name__ == "__main__":
    main()
