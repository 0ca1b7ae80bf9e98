# cause: generation-helper-on-wrong-device|input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: input_tokens
# after: TransformerLensOrg/TransformerLens#1508
from dataclasses import dataclass

import torch
from torch import nn

@dataclass
class HookedConfig:
    d_model: int = 32
    d_vocab: int = 17
    n_ctx: int = 64
    n_layers: int = 2
    device: str = "cuda"

class HookPoint(nn.Module):
    def forward(self, x):
        return x

class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = nn.MultiheadAttention(cfg.d_model, 4, batch_first=True)
        self.ln, self.hook_resid = nn.LayerNorm(cfg.d_model), HookPoint()

    def forward(self, x):
        h = self.ln(x)
        return self.hook_resid(x + self.attn(h, h, h, need_weights=False)[0])

def sample_logits(logits, temperature, freq_penalty=0.0, tokens=None):
    logits = logits / temperature
    if freq_penalty > 0:
        counts = torch.stack([torch.bincount(row, minlength=logits.shape[-1]) for row in tokens])
        logits = logits - freq_penalty * counts
    return torch.multinomial(logits.softmax(-1), 1)

class HookedTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.d_vocab, cfg.d_model)
        self.pos_embed = nn.Embedding(cfg.n_ctx, cfg.d_model)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layers)])
        self.unembed = nn.Linear(cfg.d_model, cfg.d_vocab)
        self.to(cfg.device)

    def forward(self, tokens):
        pos = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + self.pos_embed(pos)
        for block in self.blocks:
            x = block(x)
        return self.unembed(x)

    @torch.inference_mode()
    def generate(self, input, max_new_tokens=8, temperature=1.0, do_sample=True):
        input_tokens = input
        input = input.to(self.cfg.device)
        sampled = []
        for _ in range(max_new_tokens):
            tokens = torch.cat([input] + sampled, dim=1)
            logits = self.forward(tokens)[:, -1]
            nxt = sample_logits(logits, temperature) if do_sample else logits.argmax(-1, keepdim=True)
            sampled.append(nxt)
        return torch.cat((input_tokens, torch.cat(sampled, dim=1)), dim=1)

if __name__ == "__main__":
    model = HookedTransformer(HookedConfig())
    prompt = torch.randint(0, 17, (2, 5))
    print(model.generate(prompt, max_new_tokens=6))
