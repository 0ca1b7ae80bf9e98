# cause: dispatched-model-moved
# guilty: self.upper (weight of upper, h)
# line: 29
# repair: in Trainer.__init__ move the head alone (model.head.to(device)) and leave the dispatched backbone where its map put it OR skip model.to(device) when a sub-module has hf_device_map OR dispatch the whole QualityRanker with one map after it is built
"""Video quality ranking: a backbone dispatched over two cards under a small trainable head."""
import torch
from accelerate import dispatch_model
from torch import nn
from torch.nn import functional as F

BACKBONE_MAP = {"stem": "cuda:0", "lower": "cuda:0", "upper": "cuda:1", "norm": "cuda:1"}


def mixer(frames, dim):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))


class ClipBackbone(nn.Module):
    def __init__(self, dim=48, frames=8):
        super().__init__()
        self.stem = nn.Conv3d(3, dim, (1, 4, 4), stride=(1, 4, 4))
        self.lower = nn.Sequential(mixer(frames, dim), mixer(frames, dim))
        self.upper = nn.Sequential(mixer(frames, dim), mixer(frames, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, clip):
        h = self.stem(clip).flatten(3).mean(-1).transpose(1, 2)
        h = self.lower(h)
        h = self.upper(h)
        return self.norm(h).mean(1)


class QualityRanker(nn.Module):
    def __init__(self, backbone, dim=48):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, 1))
        self.register_buffer("center", torch.zeros(dim))

    @torch.no_grad()
    def calibrate(self, clips):
        self.center.copy_(self.backbone(clips).mean(0))

    def forward(self, clip):
        return self.head(self.backbone(clip) - self.center).squeeze(-1)


class Trainer:
    def __init__(self, model, device, lr=1e-3):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trainable, lr=lr)

    def step(self, better, worse, margin=0.2):
        good = self.model(better.to(self.device))
        bad = self.model(worse.to(self.device))
        loss = F.relu(margin - (good - bad)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, pairs):
        self.model.eval()
        right = sum(
            (self.model(b.to(self.device)) > self.model(w.to(self.device))).sum().item() for b, w in pairs
        )
        self.model.train()
        return right / sum(len(b) for b, _ in pairs)


def degrade(clips, strength):
    return clips + strength * torch.randn_like(clips)


def load_backbone():
    backbone = ClipBackbone().requires_grad_(False)
    return dispatch_model(backbone, device_map=BACKBONE_MAP, main_device=BACKBONE_MAP["stem"])


def main():
    torch.manual_seed(0)
    backbone = load_backbone()
    model = QualityRanker(backbone)
    clips = torch.rand(12, 3, 8, 16, 16)
    model.calibrate(clips)
    print("center", model.center.abs().mean().item())
    trainer = Trainer(model, "cuda:0")
    for step in range(5):
        batch = clips[torch.randperm(len(clips))[:6]]
        print(step, round(trainer.step(degrade(batch, 0.02), degrade(batch, 0.5)), 4))
    print("accuracy", trainer.accuracy([(degrade(clips, 0.02), degrade(clips, 0.5))]))


if __name__ == "__main__":
    main()
