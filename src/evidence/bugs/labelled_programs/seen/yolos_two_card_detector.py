# cause: embedding-streams-on-different-devices|extra-input-on-wrong-device|block-split-across-devices
# guilty: mid_pos[i] (mid_pos or self.mid_position_embeddings)
# after: huggingface/transformers#46886
import torch
from accelerate import dispatch_model
from torch import nn

class YolosLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(dim), nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)

class InterpolateMid(nn.Module):
    def forward(self, pos_embed, tokens):
        if pos_embed.shape[2] == tokens:
            return pos_embed
        d, b, n, c = pos_embed.shape
        out = nn.functional.interpolate(pos_embed.reshape(d * b, n, c).transpose(1, 2), size=tokens)
        return out.transpose(1, 2).reshape(d, b, tokens, c)

class YolosEncoder(nn.Module):
    def __init__(self, dim, layers, tokens):
        super().__init__()
        self.layer = nn.ModuleList([YolosLayer(dim) for _ in range(layers)])
        self.mid_position_embeddings = nn.Parameter(torch.zeros(layers - 1, 1, tokens, dim))
        self.interpolation = InterpolateMid()

    def forward(self, hidden_states):
        mid_pos = self.interpolation(self.mid_position_embeddings, hidden_states.shape[1])
        for i, layer_module in enumerate(self.layer):
            hidden_states = layer_module(hidden_states)
            if i < len(self.layer) - 1:
                hidden_states = hidden_states + mid_pos[i]
        return hidden_states

class Yolos(nn.Module):
    def __init__(self, dim=32, layers=4, tokens=20, classes=6):
        super().__init__()
        self.embeddings = nn.Linear(12, dim)
        self.encoder = YolosEncoder(dim, layers, tokens)
        self.class_head, self.box_head = nn.Linear(dim, classes), nn.Linear(dim, 4)

    def forward(self, patches):
        x = self.encoder(self.embeddings(patches))
        return self.class_head(x), self.box_head(x).sigmoid()

def balanced_map(model, first, second):
    half = len(model.encoder.layer) // 2
    device_map = {"embeddings": first, "class_head": second, "box_head": second}
    for i in range(len(model.encoder.layer)):
        device_map[f"encoder.layer.{i}"] = first if i < half else second
    device_map["encoder.mid_position_embeddings"] = first
    return device_map

if __name__ == "__main__":
    detector = Yolos().to("cuda:0")
    detector = dispatch_model(detector, balanced_map(detector, "cuda:0", "cuda:1")).eval()
    with torch.no_grad():
        logits, boxes = detector(torch.randn(2, 20, 12))
    print(logits.shape, boxes.shape)
