# cause: quantized-state-on-other-device
# guilty: scales (layer.v_proj.scale, layer.k_proj.scale, m.scale, group)
# line: 80
# repair: in unify_group bring the scales of a group to one card first, torch.stack([m.scale.to(group[0].scale.device) for m in group]), and write the result back with .to(m.scale.device) OR let quantise() give all members of a fused group to the same worker card
"""Float8-like export: linears are quantised on whichever card is free, fused q/k/v groups then share a scale."""
import itertools

import torch
import torch.nn as nn


class ScaledLinear(nn.Module):
    def __init__(self, linear, limit=448.0):
        super().__init__()
        weight = linear.weight.detach()
        self.limit = limit
        self.register_buffer("scale", weight.abs().amax() / limit)
        self.register_buffer("codes", (weight / self.scale).clamp(-limit, limit).round())
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def rescale(self, scale):
        self.codes = (self.codes * self.scale / scale).round()
        self.scale = scale.clone()

    def forward(self, x):
        return nn.functional.linear(x, self.codes * self.scale, self.bias)


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (m(x).view(b, t, self.heads, -1).transpose(1, 2) for m in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(dim), Attention(dim)
        self.up_proj, self.down_proj = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.down_proj(nn.functional.silu(self.up_proj(x)))


class Encoder(nn.Module):
    def __init__(self, dim=32, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def linears(model):
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear):
            yield name, module


def quantise(model, cards):
    """One linear after the other, dealt out over the cards; the results stay there until the export."""
    free = itertools.cycle(cards)
    for name, linear in linears(model):
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, ScaledLinear(linear.to(next(free))))


def unify_group(group):
    scales = [m.scale for m in group]
    shared = torch.stack(scales).amax()
    for m in group:
        m.rescale(shared)


def unify(model):
    for module in model.modules():
        if isinstance(module, Attention):
            unify_group([module.q_proj, module.k_proj, module.v_proj])


def export(model):
    return {k: v.cpu() for k, v in model.state_dict().items()}


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = Encoder().eval()
    sample = torch.randn(2, 10, 32)
    reference = model(sample)
    quantise(model, [torch.device("cuda:0"), torch.device("cuda:1")])
    done = sum(isinstance(m, ScaledLinear) for m in model.modules())
    print("quantised", done, "linears")
    unify(model)
    state = export(model)
    model.to("cpu").load_state_dict(state)
    print("error", round((model(sample) - reference).abs().max().item(), 4))


if __name__ == "__main__":
    main()
