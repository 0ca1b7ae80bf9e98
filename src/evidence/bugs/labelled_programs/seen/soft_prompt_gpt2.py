# cause: adapter-weights-on-other-device|module-left-on-other-device
# guilty: lead (self.prompt)
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class SoftPrompt(nn.Module):
    def __init__(self, lm, n_tokens=6):
        super().__init__()
        width = lm.config.n_embd
        init = lm.get_input_embeddings().weight[:n_tokens].detach().cpu().clone()
        self.prompt = nn.Parameter(init + 0.01 * torch.randn(n_tokens, width))

    def forward(self, emb):
        lead = self.prompt.unsqueeze(0).expand(emb.size(0), -1, -1)
        return torch.cat([lead, emb], dim=1)


cfg = GPT2Config(vocab_size=211, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
device = torch.device("cuda:0")
lm = GPT2LMHeadModel(cfg).to(device)
lm.requires_grad_(False)
soft = SoftPrompt(lm)
optimizer = torch.optim.Adam(soft.parameters(), lr=5e-3)

for step in range(4):
    ids = torch.randint(1, 211, (4, 20), device=device)
    emb = lm.get_input_embeddings()(ids)
    full = soft(emb)
    pad = torch.full((4, full.size(1) - ids.size(1)), -100, device=device)
    out = lm(inputs_embeds=full, labels=torch.cat([pad, ids], dim=1))
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    print(step, f"{out.loss.item():.4f}")
