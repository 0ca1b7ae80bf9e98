# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: top_x
# after: huggingface/transformers#33147
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn
class ExpertMLP(nn.Module):
    def __init__(self, dim, ffn):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, ffn), nn.Linear(ffn, dim), nn.Linear(dim, ffn)
    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))

class SparseMoeBlock(nn.Module):
    def __init__(self, dim, num_experts=4, top_k=2):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([ExpertMLP(dim, 2 * dim) for _ in range(num_experts)])
    def forward(self, hidden_states):
        b, n, d = hidden_states.shape
        hidden_states = hidden_states.view(-1, d)
        routing_weights = F.softmax(self.gate(hidden_states), dim=1)
        routing_weights, selected = torch.topk(routing_weights, self.top_k, dim=-1)
        routing_weights = routing_weights / routing_weights.sum(dim=-1, keepdim=True)
        final = torch.zeros_like(hidden_states)
        expert_mask = F.one_hot(selected, num_classes=self.num_experts).permute(2, 1, 0)
        for expert_idx in range(self.num_experts):
            idx, top_x = torch.where(expert_mask[expert_idx])
            current = hidden_states[None, top_x].reshape(-1, d)
            current = self.experts[expert_idx](current) * routing_weights[top_x, idx, None]
            final.index_add_(0, top_x, current)
        return final.view(b, n, d)

class DecoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.block_sparse_moe = SparseMoeBlock(dim)
    def forward(self, x):
        return x + self.block_sparse_moe(self.norm(x))

class MoELM(nn.Module):
    def __init__(self, vocab=50, dim=16, layers=3):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([DecoderLayer(dim) for _ in range(layers)])
        self.lm_head = nn.Linear(dim, vocab)
    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)

def placement(model, devices):
    """Layers in order over the devices; the routers are tiny and stay together on the first one."""
    device_map = {"embed_tokens": devices[0], "lm_head": devices[0]}
    per_device = -(-len(model.layers) // len(devices))
    for i in range(len(model.layers)):
        device = devices[i // per_device]
        device_map[f"layers.{i}.norm"] = device
        device_map[f"layers.{i}.block_sparse_moe.gate"] = devices[0]
        device_map[f"layers.{i}.block_sparse_moe.experts"] = device
    return device_map

if __name__ == "__main__":
    lm = MoELM()
    lm = dispatch_model(lm, placement(lm, ["cuda:0", "cuda:1"])).eval()
    with torch.no_grad():
        print(lm(torch.randint(0, 50, (2, 9))).shape)
