# cause: optimizer-state-on-other-device
# guilty: self.optimizer (self.optimizer.state or optimizer or optimizer.state)
"""Train a small bag-of-words classifier, stop, and resume from the last checkpoint."""
import os
import tempfile
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 500
    dim: int = 64
    classes: int = 4
    batch: int = 16
    seq: int = 24
    lr: float = 3e-4
    device: str = "cuda:1"


class TextClassifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.EmbeddingBag(cfg.vocab, cfg.dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, cfg.dim), nn.GELU(), nn.Linear(cfg.dim, cfg.classes))

    def forward(self, ids):
        return self.mlp(self.embed(ids))


def save_checkpoint(path, trainer):
    torch.save(
        {
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "scheduler": trainer.scheduler.state_dict(),
            "step": trainer.step,
        },
        path,
    )


def load_checkpoint(path, trainer):
    ckpt = torch.load(path, map_location="cpu")
    trainer.model.load_state_dict(ckpt["model"])
    trainer.optimizer.load_state_dict(ckpt["optimizer"])
    trainer.scheduler.load_state_dict(ckpt["scheduler"])
    trainer.step = ckpt["step"]
    print(f"resumed at step {trainer.step}")


class Trainer:
    def __init__(self, cfg, resume_from=None):
        self.cfg = cfg
        self.step = 0
        self.model = TextClassifier(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=100)
        if resume_from is not None:
            load_checkpoint(resume_from, self)
        self.model.to(cfg.device)

    def batch(self):
        ids = torch.randint(0, self.cfg.vocab, (self.cfg.batch, self.cfg.seq), device=self.cfg.device)
        labels = torch.randint(0, self.cfg.classes, (self.cfg.batch,), device=self.cfg.device)
        return ids, labels

    def fit(self, steps):
        self.model.train()
        for _ in range(steps):
            ids, labels = self.batch()
            loss = F.cross_entropy(self.model(ids), labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
        print(f"step {self.step} loss {loss.item():.4f}")


def main():
    cfg = Config()
    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    first = Trainer(cfg)
    first.fit(5)
    save_checkpoint(path, first)
    del first
    Trainer(cfg, resume_from=path).fit(5)


if __name__ == "__main__":
    main()
