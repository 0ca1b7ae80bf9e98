# cause: offload-hook-bypassed
# guilty: self.value_norm.weight
# after: huggingface/transformers#46978, huggingface/accelerate#442
import torch
from accelerate import dispatch_model
from torch import nn

class GatedDeltaMixer(nn.Module):
    """Linear attention; the norm of the values is fused with the gate and applied by hand."""

    def __init__(self, dim):
        super().__init__()
        self.in_proj = nn.Linear(dim, 2 * dim)
        self.value_norm = nn.RMSNorm(dim, eps=1e-6)
        self.out_proj = nn.Linear(dim, dim)

    def fused_gated_norm(self, value, gate):
        inv_rms = torch.rsqrt(value.pow(2).mean(-1, keepdim=True) + self.value_norm.eps)
        normed = value * inv_rms * self.value_norm.weight
        return normed * torch.sigmoid(gate)

    def forward(self, x):
        value, gate = self.in_proj(x).chunk(2, dim=-1)
        return self.out_proj(self.fused_gated_norm(value, gate))

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.mixer = nn.LayerNorm(dim), GatedDeltaMixer(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.mixer(self.norm(x))
        return x + self.mlp(x)

class LinearAttentionLM(nn.Module):
    def __init__(self, vocab=70, dim=32, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(layers)])
        self.norm, self.lm_head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))

def build_device_map(model, on_gpu, gpu, rest):
    device_map = {"embed": gpu, "norm": gpu, "lm_head": gpu}
    for i in range(len(model.layers)):
        device_map[f"layers.{i}"] = gpu if i < on_gpu else rest
    return device_map

class Generator:
    def __init__(self, model, gpu):
        self.model, self.gpu = model.eval(), gpu

    @torch.no_grad()
    def __call__(self, ids, n):
        ids = ids.to(self.gpu)
        for _ in range(n):
            nxt = self.model(ids)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt.to(ids.device)], dim=1)
        return ids

if __name__ == "__main__":
    lm = LinearAttentionLM()
    lm = dispatch_model(lm, build_device_map(lm, on_gpu=2, gpu="cuda:0", rest="cpu"))
    print(Generator(lm, "cuda:0")(torch.randint(0, 70, (1, 6)), 4))
