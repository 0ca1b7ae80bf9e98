# cause: block-split-across-devices
# guilty: ?
# after: huggingface/accelerate#1851
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn
class EVAMLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))
class EVAAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.query_key_value, self.dense = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.query_key_value(x).chunk(3, -1))
        return self.dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
class TransformerLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.input_layernorm, self.attention = nn.LayerNorm(dim), EVAAttention(dim)
        self.mlp, self.post_attention_layernorm = EVAMLP(dim), nn.LayerNorm(dim)
    def forward(self, hidden_states):
        attention_input = hidden_states
        attention_output = self.input_layernorm(self.attention(attention_input))
        hidden_states = attention_input + attention_output
        mlp_input = hidden_states
        mlp_output = self.post_attention_layernorm(self.mlp(mlp_input))
        return mlp_input + mlp_output
class EVA2CLIP(nn.Module):
    def __init__(self, dim=32, layers=4):
        super().__init__()
        self.patch_embedding = nn.Linear(27, dim)
        self.transformer = nn.ModuleList([TransformerLayer(dim) for _ in range(layers)])
        self.linear_proj = nn.Linear(dim, 48)
    def forward(self, images):
        x = self.patch_embedding(images)
        for layer in self.transformer:
            x = layer(x)
        return self.linear_proj(x)

class AutoMapper:
    def __init__(self, devices, limit):
        self.devices, self.limit = list(devices), limit
    def _size(self, module):
        return sum(p.numel() for p in module.parameters())
    def infer(self, model):
        queue, result, used, current = list(model.named_children()), {}, 0, 0
        while queue:
            name, module = queue.pop(0)
            size = self._size(module)
            if current + 1 < len(self.devices) and used + size > self.limit:
                children = list(module.named_children())
                if children:
                    queue = [(f"{name}.{n}", c) for n, c in children] + queue
                    continue
                current, used = current + 1, 0
            result[name] = self.devices[current]
            used += size
        return result

if __name__ == "__main__":
    tower = EVA2CLIP()
    device_map = AutoMapper(["cuda:0", "cuda:1"], limit=15000).infer(tower)
    tower = dispatch_model(tower, device_map).eval()
    with torch.no_grad():
        print(tower(torch.rand(2, 10, 27)).shape)
