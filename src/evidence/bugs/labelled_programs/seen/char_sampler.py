# cause: lm-head-or-tied-weight-split|generation-helper-on-wrong-device
# guilty: nxt (logits)
import torch
import torch.nn as nn


class SplitGPT(nn.Module):
    """lower half on the first card, upper half and head on the second"""

    def __init__(self, vocab=64, dim=32, ctx=48):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim).to("cuda:0")
        self.pos = nn.Embedding(ctx, dim).to("cuda:0")
        self.lower = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True).to("cuda:0")
        self.upper = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True).to("cuda:1")
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def forward(self, ids):
        t = ids.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(t, device=ids.device)
        p = torch.arange(t, device=ids.device)
        h = self.tok(ids) + self.pos(p)
        h = self.lower(h, src_mask=mask)
        h = h.to("cuda:1")
        h = self.upper(h, src_mask=mask.to(h.device))
        return self.head(h)


@torch.no_grad()
def sample(model, ids, steps, temperature=0.9, top_k=10):
    model.eval()
    for _ in range(steps):
        logits = model(ids)[:, -1] / temperature
        kth = logits.topk(top_k).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
        nxt = torch.multinomial(logits.softmax(-1), 1)
        ids = torch.cat([ids, nxt], dim=1)
    return ids


torch.manual_seed(0)
gpt = SplitGPT()
prompt = torch.randint(0, 64, (2, 5), device="cuda:0")
print(sample(gpt, prompt, 20).tolist())
