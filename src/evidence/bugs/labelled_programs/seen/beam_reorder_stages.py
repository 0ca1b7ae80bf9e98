# cause: cache-or-beam-state-on-wrong-device
# guilty: order (beam order, beam index)
# line: 23
# repair: move the beam order to each cache: self.keys.index_select(0, order.to(self.keys.device)) in LayerMemory.reorder (and for the values) OR send the order to stage.device in TwoStageDecoder.reorder before handing it to the stage's memories
"""Beam search over a decoder in two stages, each stage keeps its own memory."""
import torch
import torch.nn.functional as F
from torch import nn


class LayerMemory:
    def __init__(self):
        self.keys = self.values = None

    def extend(self, k, v):
        if self.keys is not None:
            k = torch.cat([self.keys, k], dim=2)
            v = torch.cat([self.values, v], dim=2)
        self.keys, self.values = k, v
        return k, v

    def reorder(self, order):
        self.keys = self.keys.index_select(0, order)
        self.values = self.values.index_select(0, order)


class DecoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ff = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(),
                                nn.Linear(2 * width, width))

    def forward(self, x, memory):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = memory.extend(k, v)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, w))
        return x + self.ff(x)


class DecoderStage(nn.Module):
    def __init__(self, layers, device):
        super().__init__()
        self.layers = nn.ModuleList(layers).to(device)
        self.device = torch.device(device)

    def forward(self, x, memories):
        x = x.to(self.device)
        for layer, memory in zip(self.layers, memories):
            x = layer(x, memory)
        return x


class TwoStageDecoder(nn.Module):
    def __init__(self, vocab, width, heads, per_stage, devices):
        super().__init__()
        self.embed = nn.Embedding(vocab, width).to(devices[0])
        self.stages = nn.ModuleList(
            DecoderStage([DecoderLayer(width, heads) for _ in range(per_stage)], d) for d in devices)
        self.head = nn.Linear(width, vocab).to(devices[-1])

    def new_memories(self):
        return [[LayerMemory() for _ in stage.layers] for stage in self.stages]

    def reorder(self, memories, order):
        for stage_memories in memories:
            for memory in stage_memories:
                memory.reorder(order)

    def forward(self, ids, memories):
        x = self.embed(ids.to(self.embed.weight.device))
        for stage, stage_memories in zip(self.stages, memories):
            x = stage(x, stage_memories)
        # the search works beside the ids
        return self.head(x[:, -1]).log_softmax(-1).to(self.embed.weight.device)


class BeamSearch:
    def __init__(self, model, beams, length):
        self.model, self.beams, self.length = model, beams, length

    @torch.no_grad()
    def __call__(self, prompt):
        beams = prompt.expand(self.beams, -1)
        scores = torch.full((self.beams,), -1e9, device=prompt.device)
        scores[0] = 0.0
        memories = self.model.new_memories()
        step = beams
        for _ in range(self.length):
            log_probs = self.model(step, memories)
            total = scores[:, None] + log_probs
            scores, flat = total.flatten().topk(self.beams)
            order = flat // log_probs.shape[-1]
            step = (flat % log_probs.shape[-1]).unsqueeze(1)
            beams = torch.cat([beams[order], step], dim=1)
            self.model.reorder(memories, order)
        return beams[scores.argmax()]


if __name__ == "__main__":
    torch.manual_seed(0)
    decoder = TwoStageDecoder(50, 32, 4, per_stage=2, devices=["cuda:0", "cuda:1"]).eval()
    search = BeamSearch(decoder, beams=3, length=6)
    print(search(torch.randint(0, 50, (1, 5), device="cuda:0")).tolist())
