# cause: tensor-created-on-wrong-device
# guilty: self.mask (attn_mask or mask)
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX = 32


def causal(n):
    return torch.triu(torch.full((n, n), float("-inf")), 1)


class SelfAttention(nn.Module):
    mask = causal(MAX)

    def __init__(self, d=16, heads=2):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask[:n, :n])
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
layers = nn.Sequential(SelfAttention(), nn.LayerNorm(16), SelfAttention()).to("cuda:0")
opt = torch.optim.Adam(layers.parameters(), 1e-3)
for _ in range(2):
    x = torch.randn(2, 7, 16, device="cuda:0")
    loss = F.mse_loss(layers(x)[:, :-1], x[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
