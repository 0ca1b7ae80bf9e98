# cause: data-parallel-replica-device|tensor-created-on-wrong-device
# guilty: self.relative_position_index (self.relative_position_index.view(-1))
"""Window attention classifier trained with nn.DataParallel on all visible GPUs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WindowAttention(nn.Module):
    def __init__(self, dim, window, heads, device):
        super().__init__()
        self.window = window
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        rel = rel + window - 1
        index = rel[..., 0] * (2 * window - 1) + rel[..., 1]
        self.relative_position_index = index.to(device)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def bias(self):
        n = self.window * self.window
        flat = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        return flat.view(n, n, self.heads).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1) + self.bias()
        out = attn.softmax(-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, n, c))


class TinySwin(nn.Module):
    def __init__(self, dim=32, window=4, heads=4, classes=10, device="cpu"):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, stride=8)
        self.blocks = nn.ModuleList([WindowAttention(dim, window, heads, device) for _ in range(2)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = x + block(self.norm(x))
        return self.head(x.mean(1))


def main():
    device = "cuda:0"
    model = TinySwin(device=device).to(device)
    model = nn.DataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        images = torch.randn(8, 3, 32, 32, device=device)
        target = torch.randint(0, 10, (8,), device=device)
        loss = F.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
