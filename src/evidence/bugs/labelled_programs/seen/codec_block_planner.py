# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: x (self.mlp(self.norm2(x)))
# line: 32
# repair: in place() name the class that the blocks really have, no_split_module_classes=["CodecBlock"] (the planner compares the class name itself, "StreamBlock" is only the parent), OR move the planner's cut by hand so that every music.blocks.N is whole on one card
"""Music token model (four codebooks per frame) placed by the planner of accelerate on two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model, infer_auto_device_map


class StreamBlock(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class CodecBlock(StreamBlock):
    def __init__(self, dim, heads=4):
        super().__init__(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CodebookEmbedding(nn.Module):
    def __init__(self, books, size, dim):
        super().__init__()
        self.size = size
        self.table = nn.Embedding(books * size, dim)

    def forward(self, codes):
        shift = torch.arange(codes.shape[1], device=codes.device)[:, None] * self.size
        return self.table(codes + shift).sum(1)


class MusicModel(nn.Module):
    def __init__(self, books=4, size=64, dim=64, depth=6):
        super().__init__()
        self.books, self.size = books, size
        self.embed = CodebookEmbedding(books, size, dim)
        self.blocks = nn.ModuleList(CodecBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.heads = nn.Linear(dim, books * size)

    def forward(self, codes):
        x = self.embed(codes)
        for block in self.blocks:
            x = block(x)
        b, t, _ = x.shape
        return self.heads(self.norm(x)).view(b, t, self.books, self.size)


def place(model, share=0.52):
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    room = {0: int(total * share), 1: total}
    plan = infer_auto_device_map(model, max_memory=room, no_split_module_classes=["StreamBlock"])
    return dispatch_model(model, device_map=plan)


@torch.inference_mode()
def continue_piece(model, codes, frames, temperature=1.0):
    for _ in range(frames):
        logits = model(codes)[:, -1] / temperature
        fresh = torch.multinomial(logits.softmax(-1).flatten(0, 1), 1).view(len(codes), -1, 1)
        codes = torch.cat([codes, fresh.to(codes.device)], -1)
    return codes


def main():
    torch.manual_seed(0)
    model = place(MusicModel().eval())
    print("first card holds", sum(str(d) == "0" for d in model.hf_device_map.values()), "modules")
    for seconds in (1, 2):
        theme = torch.randint(0, 64, (1, 4, 8 * seconds), device="cuda:0")
        piece = continue_piece(model, theme, frames=4)
        print(seconds, piece[0, :, -4:].tolist())


if __name__ == "__main__":
    main()
