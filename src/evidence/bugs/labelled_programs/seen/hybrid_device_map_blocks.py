# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: ?
# after: huggingface/accelerate#1730, huggingface/accelerate#2901
import torch
import torch.nn as nn
from accelerate import dispatch_model

class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(d, 3 * d)
        self.dense = nn.Linear(d, d)
    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.query_key_value(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(y.transpose(1, 2).reshape(b, n, d))
class MLP(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)
    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))
class DecoderLayer(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(d)
        self.self_attention = Attention(d, heads)
        self.post_layernorm = nn.LayerNorm(d)
        self.mlp = MLP(d)
    def forward(self, hidden_states):
        residual = hidden_states
        attn = self.self_attention(self.input_layernorm(hidden_states))
        hidden_states = residual + attn
        residual = hidden_states
        mlp_output = self.mlp(self.post_layernorm(hidden_states))
        return residual + mlp_output

class FalconLike(nn.Module):
    def __init__(self, vocab=64, d=32, n=3):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, d)
        self.h = nn.ModuleList([DecoderLayer(d) for _ in range(n)])
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
    def forward(self, ids):
        x = self.word_embeddings(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))

def fill_device_map(model, budget, first, second):
    """Greedy: leaves go to the first device until its budget of parameters is used up."""
    device_map, used = {}, 0
    for name, module in model.named_modules():
        if len(list(module.children())) == 0:
            size = sum(p.numel() for p in module.parameters())
            used += size
            device_map[name] = first if used <= budget else second
    return device_map

if __name__ == "__main__":
    torch.manual_seed(0)
    model = FalconLike().eval()
    total = sum(p.numel() for p in model.parameters())
    device_map = fill_device_map(model, int(total * 0.45), first="cpu", second="cuda:0")
    model = dispatch_model(model, device_map=device_map, main_device="cpu")
    with torch.no_grad():
        print(model(torch.randint(0, 64, (1, 10))).shape)
