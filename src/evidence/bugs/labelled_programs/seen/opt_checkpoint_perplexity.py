# cause: lm-head-or-tied-weight-split
# guilty: self.weight (lm_head.weight or weight)
# after: huggingface/accelerate#993
import torch
from accelerate import dispatch_model
from torch import nn

class DecoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.self_attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
    def forward(self, x):
        h = self.self_attn_layer_norm(x)
        x = x + self.self_attn(h, h, h, need_weights=False)[0]
        return x + self.fc2(torch.relu(self.fc1(self.final_layer_norm(x))))

class OPTDecoder(nn.Module):
    def __init__(self, vocab, dim, layers):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([DecoderLayer(dim) for _ in range(layers)])
        self.final_layer_norm = nn.LayerNorm(dim)
    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.final_layer_norm(x)

class OPTForCausalLM(nn.Module):
    def __init__(self, vocab=64, dim=32, layers=4):
        super().__init__()
        self.decoder = OPTDecoder(vocab, dim, layers)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
    def tie_weights(self):
        self.lm_head.weight = self.decoder.embed_tokens.weight
    def forward(self, ids):
        return self.lm_head(self.decoder(ids))

def load(model, state):
    missing = model.load_state_dict(state, strict=False).missing_keys
    return [k for k in missing if not k.startswith("lm_head")]

def split_map(n_layers):
    device_map = {"decoder.embed_tokens": "cuda:0"}
    for i in range(n_layers):
        device_map[f"decoder.layers.{i}"] = "cuda:0" if i < n_layers // 2 else "cuda:1"
    device_map.update({"decoder.final_layer_norm": "cuda:1", "lm_head": "cuda:1"})
    return device_map

def prepare(state):
    model = OPTForCausalLM()
    assert not load(model, state)
    model = dispatch_model(model, split_map(len(model.decoder.layers)))
    model.tie_weights()
    return model.eval()

@torch.no_grad()
def perplexity(model, ids):
    logits = model(ids)[:, :-1]
    target = ids[:, 1:].to(logits.device)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).exp().item()

if __name__ == "__main__":
    checkpoint = {k: v for k, v in OPTForCausalLM().state_dict().items() if not k.startswith("lm_head")}
    model = prepare(checkpoint)
    print(perplexity(model, torch.randint(0, 64, (2, 12))))
