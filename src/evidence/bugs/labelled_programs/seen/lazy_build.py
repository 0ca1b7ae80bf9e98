# cause: meta-tensor-not-materialized
# guilty: self.dist
import torch
from torch import nn
import torch.nn.functional as F


class WindowBias(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(heads))
        i = torch.arange(size)
        self.register_buffer("dist", (i[:, None] - i[None]).abs().float(), persistent=False)

    def forward(self):
        return -F.softplus(self.slope)[:, None, None] * self.dist


class SwinLike(nn.Module):
    def __init__(self, size=9, d=24, heads=3, classes=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(6, d)
        self.qkv = nn.Linear(d, 3 * d)
        self.bias = WindowBias(size, heads)
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        x = self.embed(x)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias())
        return self.head((x + y.transpose(1, 2).flatten(2)).mean(1))


def fast_load(factory, state, device):
    """Skip the random initialisation: build empty, then adopt the given tensors."""
    with torch.device("meta"):
        model = factory()
    placed = {k: v.to(device) for k, v in state.items()}
    missing, unexpected = model.load_state_dict(placed, strict=False, assign=True)
    if missing or unexpected:
        raise KeyError(f"{missing=} {unexpected=}")
    return model


def main():
    torch.manual_seed(0)
    trained = SwinLike().state_dict()
    model = fast_load(SwinLike, trained, "cuda:0").eval()
    x = torch.randn(3, 9, 6, device="cuda:0")
    with torch.no_grad():
        print(model(x).softmax(-1))


if __name__ == "__main__":
    main()
