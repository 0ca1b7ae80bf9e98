# cause: offload-hook-bypassed|unmaterialized-weights|meta-tensor-not-materialized
# guilty: pad_embedding (self.embed_tokens.weight)
# after: huggingface/transformers#48409
from dataclasses import dataclass
import torch
import torch.nn as nn
from accelerate import dispatch_model

@dataclass
class MMConfig:
    vocab_size: int = 60
    hidden: int = 32
    layers: int = 2
    pad_token_id: int = 0
    image_token_id: int = 59

class ScaledEmbedding(nn.Embedding):
    def forward(self, ids):
        return super().forward(ids) * self.embedding_dim ** 0.5

class DecoderLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)

class MMModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = ScaledEmbedding(config.vocab_size, config.hidden)
        self.vision = nn.Linear(12, config.hidden)
        self.layers = nn.ModuleList([DecoderLayer(config.hidden) for _ in range(config.layers)])
        self.lm_head = nn.Linear(config.hidden, config.vocab_size)

    def get_inputs_embeds(self, input_ids):
        image_mask = input_ids == self.config.image_token_id
        text_ids = input_ids.masked_fill(image_mask, self.config.pad_token_id)
        inputs_embeds = self.embed_tokens(text_ids)
        pad_embedding = self.embed_tokens.weight[self.config.pad_token_id, :]
        inputs_embeds = torch.where(image_mask[..., None], pad_embedding.view(1, 1, -1), inputs_embeds)
        return inputs_embeds, image_mask

    def forward(self, input_ids, patches):
        embeds, image_mask = self.get_inputs_embeds(input_ids)
        embeds = embeds.masked_scatter(image_mask[..., None].expand_as(embeds), self.vision(patches))
        for layer in self.layers:
            embeds = layer(embeds)
        return self.lm_head(embeds)

def load(config, gpu_layers):
    model = MMModel(config).eval()
    device_map = {"embed_tokens": "cpu", "vision": "cuda:0", "lm_head": "cuda:0"}
    for i in range(config.layers):
        device_map[f"layers.{i}"] = "cuda:0" if i < gpu_layers else "cpu"
    return dispatch_model(model, device_map=device_map)

if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = MMConfig()
    model = load(cfg, gpu_layers=1)
    ids = torch.randint(1, 58, (1, 8))
    ids[0, 2:5] = cfg.image_token_id
    with torch.no_grad():
        print(model(ids.to("cuda:0"), torch.randn(3, 12).to("cuda:0")).shape)
