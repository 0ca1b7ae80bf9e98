# cause: tensor-created-on-wrong-device
# guilty: grid (RelativeBias._grids[key], self._grids)
# line: 31
# repair: put the device into the key in RelativeBias.grid (key = (h, w, device)) OR return self._grids[key].to(device) OR keep the grid as a buffer of each instance
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeBias(nn.Module):
    """Learned bias per pair of relative positions; the index grids are shared by all layers."""

    _grids = {}

    def __init__(self, heads, reach=7):
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(0.02 * torch.randn((2 * reach + 1) ** 2, heads))

    def grid(self, h, w, device):
        key = (h, w)
        if key not in RelativeBias._grids:
            ys, xs = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
            pos = torch.stack([ys.flatten(), xs.flatten()], dim=-1)
            diff = (pos[:, None] - pos[None]).clamp(-self.reach, self.reach) + self.reach
            RelativeBias._grids[key] = diff[..., 0] * (2 * self.reach + 1) + diff[..., 1]
        return RelativeBias._grids[key]

    def forward(self, h, w):
        grid = self.grid(h, w, self.table.device)
        return self.table[grid].permute(2, 0, 1)


class WindowLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.bias = RelativeBias(heads)

    def forward(self, x, h, w):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(h, w).unsqueeze(0))
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class Eye(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.layers = nn.ModuleList(WindowLayer(dim, heads) for _ in range(depth))

    def forward(self, img):
        f = self.patch(img)
        h, w = f.shape[2:]
        x = f.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, h, w)
        return x


class StereoMatcher:
    """Each eye has its own weights and its own card."""

    def __init__(self, left="cuda:0", right="cuda:1"):
        self.left_device, self.right_device = left, right
        self.left = Eye().to(left).eval()
        self.right = Eye().to(right).eval()

    @torch.no_grad()
    def match(self, left_img, right_img):
        a = self.left(left_img.to(self.left_device))
        b = self.right(right_img.to(self.right_device)).to(self.left_device)
        scores = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).transpose(1, 2)
        return scores.argmax(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    matcher = StereoMatcher()
    print(matcher.match(torch.randn(1, 3, 24, 32), torch.randn(1, 3, 24, 32)).tolist())
