# cause: adapter-weights-on-other-device|tensor-created-on-wrong-device
# guilty: self.lora_A
# after: ViperEkura/AstrAI#19
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F

@dataclass
class LoRAConfig:
    r: int = 4
    alpha: int = 8
    target_modules: tuple = ("q_proj", "v_proj")
class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, config: LoRAConfig):
        super().__init__()
        self.weight, self.bias = base.weight, base.bias
        self.scaling = config.alpha / config.r
        self.lora_A = nn.Parameter(torch.randn(config.r, base.in_features) * base.in_features ** -0.5)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, config.r))
    def forward(self, x):
        base = F.linear(x, self.weight, self.bias)
        return base + self.scaling * F.linear(F.linear(x, self.lora_A), self.lora_B)
class GQAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
    def forward(self, x):
        b, n, d = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.hd).transpose(1, 2)
        k, v = (p(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2).repeat_interleave(
            self.heads // self.kv_heads, dim=1) for p in (self.k_proj, self.v_proj))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
class SmallLM(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([GQAttention(dim, 4, 2) for _ in range(depth)])
        self.lm_head = nn.Linear(dim, vocab, bias=False)
    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = h + layer(h)
        return self.lm_head(h)
def inject_lora(model, config):
    for p in model.parameters():
        p.requires_grad_(False)
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name in config.target_modules:
                setattr(module, name, LoRALinear(child, config))
                count += 1
    return count

if __name__ == "__main__":
    torch.manual_seed(0)
    model = SmallLM().to("cuda")
    print("injected", inject_lora(model, LoRAConfig()))
    optim = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(2):
        ids = torch.randint(0, 64, (2, 10)).to("cuda")
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optim.step()
        optim.zero_grad()
    print(loss.item())
