# cause: device-map-incomplete-or-wrong|module-left-on-other-device
# guilty: self.norm
# after: hyprstream/hyprstream#405
from dataclasses import dataclass
import torch
import torch.nn.functional as F
def make_checkpoint(vocab, dim, layers, device):
    g = lambda *s: torch.randn(*s, device=device) * 0.1
    w = {"embed_tokens": g(vocab, dim), "norm": torch.ones(dim, device=device), "lm_head": g(vocab, dim)}
    for i in range(layers):
        w[f"layers.{i}.norm"] = torch.ones(dim, device=device)
        w[f"layers.{i}.up"], w[f"layers.{i}.down"] = g(2 * dim, dim), g(dim, 2 * dim)
    return w
def rms_norm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight
@dataclass
class Layer:
    norm: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    def into_device(self, device):
        return Layer(self.norm.to(device), self.up.to(device), self.down.to(device))
    def __call__(self, x):
        return x + F.silu(rms_norm(x, self.norm) @ self.up.T) @ self.down.T
@dataclass
class StageConfig:
    start: int
    end: int
    total: int
    device: str

class LlamaStage:
    def __init__(self, cfg, layers, embed_tokens=None, norm=None, lm_head=None):
        self.cfg, self.layers = cfg, layers
        self.embed_tokens, self.norm, self.lm_head = embed_tokens, norm, lm_head
    @staticmethod
    def build_layer(w, i, device):
        return Layer(*(w[f"layers.{i}.{k}"] for k in ("norm", "up", "down"))).into_device(device)
    @classmethod
    def from_weights(cls, w, cfg):
        layers = [cls.build_layer(w, i, cfg.device) for i in range(cfg.start, cfg.end)]
        top = {}
        if cfg.start == 0:
            top["embed_tokens"] = w["embed_tokens"].detach()
        if cfg.end == cfg.total:
            top["norm"], top["lm_head"] = w["norm"].detach(), w["lm_head"].detach()
        return cls(cfg, layers, **top)
    def forward(self, x):
        if self.cfg.start == 0:
            x = F.embedding(x, self.embed_tokens)
        for layer in self.layers:
            x = layer(x)
        if self.cfg.end == self.cfg.total:
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
            x = x[:, -1] @ self.lm_head.T
        return x

class Pipeline:
    def __init__(self, weights, total, devices):
        cuts = [round(total * i / len(devices)) for i in range(len(devices) + 1)]
        self.stages = [LlamaStage.from_weights(weights, StageConfig(a, b, total, d)) for a, b, d in zip(cuts, cuts[1:], devices)]
    def __call__(self, ids):
        x = ids
        for stage in self.stages:
            x = stage.forward(x.to(stage.cfg.device))
        return x

if __name__ == "__main__":
    weights = make_checkpoint(60, 32, 4, device="cuda:0")
    pipeline = Pipeline(weights, 4, ["cuda:0", "cuda:1"])
    print(pipeline(torch.randint(0, 60, (2, 7))).shape)
