# cause: cache-or-beam-state-on-wrong-device
# guilty: beam_idx
# after: BlackSamorez/tensor_parallel#56
import torch
import torch.nn.functional as F
from torch import nn

class Shard(nn.Module):
    """Half of the heads of every layer."""

    def __init__(self, dim, heads, layers, device):
        super().__init__()
        self.heads, self.device = heads, device
        width = dim // 2
        self.qkv = nn.ModuleList([nn.Linear(dim, 3 * width) for _ in range(layers)])
        self.out = nn.ModuleList([nn.Linear(width, dim) for _ in range(layers)])
        self.to(device)

    def attend(self, i, x, past):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv[i](x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out[i](y.transpose(1, 2).flatten(2)), (k, v)

    def _reorder_cache(self, past, beam_idx):
        return [tuple(state.index_select(0, beam_idx) for state in layer_past) for layer_past in past]

class TensorParallelDecoder(nn.Module):
    def __init__(self, devices, vocab=30, dim=32, layers=2):
        super().__init__()
        self.devices, self.layers = devices, layers
        self.embed, self.head = nn.Embedding(vocab, dim).to(devices[0]), nn.Linear(dim, vocab).to(devices[0])
        self.module_shards = nn.ModuleList([Shard(dim, 2, layers, d) for d in devices])

    def forward(self, ids, past):
        x, new_past = self.embed(ids), [[] for _ in self.module_shards]
        for i in range(self.layers):
            partial = []
            for s, shard in enumerate(self.module_shards):
                y, kv = shard.attend(i, x.to(shard.device), past[s][i] if past else None)
                new_past[s].append(kv)
                partial.append(y.to(self.devices[0]))
            x = x + sum(partial)
        return self.head(x[:, -1]), new_past

    def _reorder_cache(self, past, beam_idx):
        return [shard._reorder_cache(p, beam_idx) for shard, p in zip(self.module_shards, past)]

class BeamSearch:
    def __init__(self, model, beams):
        self.model, self.beams = model, beams

    @torch.no_grad()
    def __call__(self, start, steps):
        ids = torch.full((self.beams, 1), start, device=self.model.devices[0])
        scores = torch.full((self.beams,), -1e9, device=ids.device)
        scores[0], past, step = 0.0, None, ids
        for _ in range(steps):
            logits, past = self.model(step, past)
            total = (scores[:, None] + logits.log_softmax(-1)).flatten()
            scores, flat = total.topk(self.beams)
            beam_idx, token = flat // logits.shape[-1], flat % logits.shape[-1]
            ids = torch.cat([ids[beam_idx], token[:, None]], 1)
            past, step = self.model._reorder_cache(past, beam_idx), token[:, None]
        return ids[0]

if __name__ == "__main__":
    print(BeamSearch(TensorParallelDecoder(["cuda:0", "cuda:1"]), beams=3)(1, steps=5))
