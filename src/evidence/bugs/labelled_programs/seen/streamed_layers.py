# cause: offload-hook-bypassed
# guilty: self.lm_head.weight
import torch
from torch import nn
from torch.nn import functional as F


def stream(module, device):
    """Keep the weights on the host; bring them in for the call, take them out after it."""
    module.to("cpu")

    def before(mod, args):
        mod.to(device)
        return tuple(a.to(device) if torch.is_tensor(a) else a for a in args)

    def after(mod, args, out):
        mod.to("cpu")
        return out

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)
    return module


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, h):
        return h + self.down(F.silu(self.up(self.ln(h))))


class LM(nn.Module):
    def __init__(self, vocab=48, d=16, n=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(n))
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def hidden(self, ids):
        h = self.embed(ids)
        for b in self.blocks:
            h = b(h)
        return h

    def forward(self, ids):
        return self.lm_head(self.hidden(ids))

    def token_logprob(self, ids):
        """log p of each next token; avoids the full logits by picking rows of the head."""
        h = self.hidden(ids[:, :-1])
        norm = self.lm_head(h).logsumexp(-1)
        rows = self.lm_head.weight[ids[:, 1:]]
        return (h * rows).sum(-1) - norm


@torch.no_grad()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    lm = LM().eval()
    for part in [lm.embed, *lm.blocks, lm.lm_head]:
        stream(part, device)
    ids = torch.randint(0, 48, (2, 9)).to(device)
    print("perplexity", F.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).exp().item())
    print("per token", lm.token_logprob(ids).mean(1).tolist())


main()
