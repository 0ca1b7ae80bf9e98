# cause: generation-helper-on-wrong-device|input-not-on-embedding-device|tensor-created-on-wrong-device
# guilty: input_tokens
# after: TransformerLensOrg/TransformerLens#1508
from dataclasses import dataclass
import torch
import torch.nn as nn

@dataclass
class HookedConfig:
    d_model: int = 24
    d_vocab: int = 50
    n_ctx: int = 32
    n_heads: int = 2
    device: str = "cuda"
    default_prepend_bos: bool = False

class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln = nn.LayerNorm(cfg.d_model)
        self.attn = nn.MultiheadAttention(cfg.d_model, cfg.n_heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(cfg.d_model, 48), nn.GELU(), nn.Linear(48, cfg.d_model))

    def forward(self, x):
        n = x.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        h = self.ln(x)
        x = x + self.attn(h, h, h, attn_mask=causal, need_weights=False)[0]
        return x + self.mlp(x)

class HookedLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.d_vocab, cfg.d_model)
        self.pos = nn.Embedding(cfg.n_ctx, cfg.d_model)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(2)])
        self.unembed = nn.Linear(cfg.d_model, cfg.d_vocab)
        self.to(cfg.device)

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.unembed(x)

    @torch.inference_mode()
    def generate(self, input, max_new_tokens=5, freq_penalty=0.0, temperature=1.0):
        assert input.ndim == 2
        input_tokens = input
        batch_size = input.shape[0]
        device = torch.device(self.cfg.device)
        input = input.to(device)
        current, sampled = input, []
        for index in range(max_new_tokens):
            logits = self.forward(current)[:, -1] / temperature
            if freq_penalty > 0 and sampled:
                counts = torch.zeros_like(logits).scatter_add_(
                    1, torch.cat(sampled, dim=1), torch.ones(batch_size, len(sampled), device=device))
                logits = logits - freq_penalty * counts
            new = torch.multinomial(logits.softmax(-1), 1)
            sampled.append(new)
            current = torch.cat([current, new], dim=1)
        sampled_tokens = torch.cat(sampled, dim=1)
        return torch.cat((input_tokens, sampled_tokens), dim=1)

if __name__ == "__main__":
    torch.manual_seed(0)
    model = HookedLM(HookedConfig())
    prompts = torch.randint(0, 50, (3, 4))
    print(model.generate(prompts, max_new_tokens=6, freq_penalty=0.5).shape)
