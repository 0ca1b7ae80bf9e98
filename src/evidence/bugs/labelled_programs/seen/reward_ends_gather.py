# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device|device-map-incomplete-or-wrong
# guilty: ends
# line: 38
# repair: in RewardLM.forward gather with ends.to(scores.device) OR compute ends on scores.device (attention_mask.to(scores.device).sum(...))
"""Score candidate answers with a reward model that is spread over two cards."""
import torch
from torch import nn
from accelerate import dispatch_model


class Layer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.ln = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, h):
        n = self.ln(h)
        h = h + self.attn(n, n, n, need_weights=False)[0]
        return h + self.ff(h)


class RewardLM(nn.Module):
    def __init__(self, vocab=120, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.v_head = nn.Linear(dim, 1, bias=False)

    def forward(self, input_ids, attention_mask):
        ends = attention_mask.cumsum(dim=1).argmax(dim=1).view(-1, 1)
        h = self.embed(input_ids)
        for layer in self.layers:
            h = layer(h)
        scores = self.v_head(self.norm(h)).squeeze(-1)
        return torch.gather(scores, 1, ends)


def layer_plan(depth):
    plan = {"embed": "cuda:0", "norm": "cuda:1", "v_head": "cuda:1"}
    for i in range(depth):
        plan[f"layers.{i}"] = "cuda:0" if i < depth // 2 else "cuda:1"
    return plan


@torch.no_grad()
def rank(model, batches):
    best = []
    for ids, mask in batches:
        reward = model(ids.to("cuda:0"), mask.to("cuda:0"))
        best.append(int(reward.argmax()))
    return best


if __name__ == "__main__":
    torch.manual_seed(0)
    model = dispatch_model(RewardLM().eval(), device_map=layer_plan(4))
    data = [(torch.randint(0, 120, (6, 17)), torch.ones(6, 17, dtype=torch.long)) for _ in range(3)]
    print(rank(model, data))
