# cause: block-split-across-devices
# guilty: residual
"""Load a protein language encoder over both cards with an inferred map."""
import torch
from accelerate import dispatch_model, infer_auto_device_map
from torch import nn


class FoldBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        residual = x
        x = self.norm(x)
        x = self.down(torch.nn.functional.gelu(self.up(x)))
        return residual + x


class ProteinEncoder(nn.Module):
    def __init__(self, dim=32, depth=5, letters=25):
        super().__init__()
        self.embed = nn.Embedding(letters, dim)
        self.blocks = nn.ModuleList([FoldBlock(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, letters)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def weight_bytes(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


def shard(model):
    total = weight_bytes(model)
    plan = infer_auto_device_map(model, max_memory={0: int(total * 0.6), 1: total})
    return dispatch_model(model, device_map={k: f"cuda:{v}" for k, v in plan.items()})


@torch.no_grad()
def main():
    torch.manual_seed(1)
    model = shard(ProteinEncoder()).eval()
    sequences = torch.randint(0, 25, (3, 40))
    scores = model(sequences.to("cuda:0"))
    per_site = scores.log_softmax(-1).gather(-1, sequences.to(scores.device)[..., None])
    print("pseudo perplexity", float((-per_site.mean()).exp().cpu()))


if __name__ == "__main__":
    main()
