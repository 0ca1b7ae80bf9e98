# cause: input-not-on-embedding-device|hard-coded-device
# guilty: tokens (batch["tokens"])
# line: 60
# repair: in resolve_device keep the ordinal: return torch.device(spec) instead of torch.device(kind) OR move the batch to next(self.model.parameters()).device
"""A fine-tuning recipe driven by a dictionary of settings with command-line overrides."""
import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULTS = {
    "device": "cuda:0",
    "model": {"vocab": 80, "dim": 32, "layers": 2},
    "optimizer": {"lr": 1e-3, "weight_decay": 0.01},
    "epochs": 1,
    "batch_size": 4,
    "seed": 7,
}


def with_overrides(config, overrides):
    merged = {k: dict(v) if isinstance(v, dict) else v for k, v in config.items()}
    for item in overrides:
        key, value = item.split("=", 1)
        *path, last = key.split(".")
        node = merged
        for part in path:
            node = node[part]
        node[last] = type(node[last])(value)
    return merged


def resolve_device(spec):
    """Check the name against what this build supports and hand back a device."""
    kind, _, _ = spec.partition(":")
    if kind not in ("cpu", "cuda", "xpu"):
        raise ValueError(f"unknown device kind {kind!r}")
    return torch.device(kind)


class CausalBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.mix = nn.Conv1d(dim, dim, 3)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x):
        h = F.pad(self.norm(x).transpose(1, 2), (2, 0))
        return x + self.mix(h).transpose(1, 2) * self.gate(x).sigmoid()


class InstructLM(nn.Module):
    def __init__(self, vocab, dim, layers):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(CausalBlock(dim) for _ in range(layers))
        self.out = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.tok(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class InstructionSet(torch.utils.data.Dataset):
    def __init__(self, vocab, size=16, length=12):
        g = torch.Generator().manual_seed(3)
        self.rows = torch.randint(1, vocab, (size, length), generator=g)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        labels = row.clone()
        labels[: 4] = -100
        return {"tokens": row, "labels": labels}


class FineTuneRecipe:
    def __init__(self, config):
        self.config = config
        self._device = resolve_device(config["device"])

    def setup(self):
        torch.manual_seed(self.config["seed"])
        with torch.device(self.config["device"]):
            self.model = InstructLM(**self.config["model"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **self.config["optimizer"])
        data = InstructionSet(self.config["model"]["vocab"])
        self.loader = torch.utils.data.DataLoader(data, batch_size=self.config["batch_size"])

    def loss_step(self, batch):
        batch = {k: v.to(self._device) for k, v in batch.items()}
        logits = self.model(batch["tokens"])
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())

    def train(self):
        for epoch in range(self.config["epochs"]):
            for step, batch in enumerate(self.loader):
                loss = self.loss_step(batch)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}")


def main():
    config = with_overrides(DEFAULTS, ["device=cuda:1", "model.dim=48", "optimizer.lr=0.0005"])
    recipe = FineTuneRecipe(config)
    recipe.setup()
    recipe.train()


if __name__ == "__main__":
    main()
