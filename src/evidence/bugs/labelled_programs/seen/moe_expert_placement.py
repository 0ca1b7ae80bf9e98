# cause: block-split-across-devices|module-left-on-other-device|tensor-created-on-wrong-device
# guilty: y
"""Top-2 mixture of experts with experts dealt out to the GPUs round-robin."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    def __init__(self, dim, hidden, n_experts=4, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))
        self.placement = None

    def spread(self, devices):
        self.placement = [devices[i % len(devices)] for i in range(len(self.experts))]
        for expert, device in zip(self.experts, self.placement):
            expert.to(device)
        self.gate.to(devices[0])

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        probs = self.gate(flat).softmax(dim=-1)
        weights, chosen = probs.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            tok, slot = torch.where(chosen == i)
            if tok.numel() == 0:
                continue
            home = self.placement[i]
            y = expert(flat[tok].to(home))
            out.index_add_(0, tok, y * weights[tok, slot].unsqueeze(-1))
        return out.view_as(x)


class MoEBlock(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.moe = SparseMoE(dim, hidden)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.moe(self.norm2(x))


class MoEEncoder(nn.Module):
    def __init__(self, vocab=200, dim=32, heads=4, hidden=64, layers=2, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(MoEBlock(dim, heads, hidden) for _ in range(layers))
        self.cls = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.cls(x.mean(1))


def main():
    devices = [torch.device("cuda:0"), torch.device("cuda:1")]
    model = MoEEncoder().to(devices[0])
    for block in model.blocks:
        block.moe.spread(devices)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for step in range(2):
        ids = torch.randint(0, 200, (4, 32), device=devices[0])
        target = torch.randint(0, 3, (4,), device=devices[0])
        loss = F.cross_entropy(model(ids), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
