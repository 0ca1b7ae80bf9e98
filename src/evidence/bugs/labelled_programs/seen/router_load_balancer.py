# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: self.load[layer] (self.load, load)
# line: 63
# repair: in BiasBalancer.attach allocate each counter on its layer's device: self.load.append(torch.zeros(layer.n_experts, device=layer.bias.device)) OR in BiasBalancer.record: self.load[layer] += counts.to(self.load[layer].device) and move the delta back in step
"""Auxiliary-loss-free load balancing for a small mixture-of-experts language model."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class MoELayer(nn.Module):
    def __init__(self, dim, n_experts, top_k):
        super().__init__()
        self.n_experts, self.top_k = n_experts, top_k
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, dim * 2) for _ in range(n_experts))
        self.register_buffer("bias", torch.zeros(n_experts))
        self.on_route = None

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        scores = self.gate(flat).sigmoid()
        chosen = (scores + self.bias).topk(self.top_k, dim=-1).indices
        if self.on_route is not None and self.training:
            self.on_route(chosen)
        weights = scores.gather(-1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            rows, slot = (chosen == e).nonzero(as_tuple=True)
            if rows.numel():
                out.index_add_(0, rows, expert(flat[rows]) * weights[rows, slot].unsqueeze(-1))
        return x + out.view_as(x)


class BiasBalancer:
    """Counts how often each expert is chosen and nudges the routing bias after a step."""

    def __init__(self, rate=1e-3, device="cuda:0"):
        self.rate = rate
        self.device = torch.device(device)
        self.layers, self.load = [], []

    def attach(self, model):
        for layer in model.layers:
            index = len(self.layers)
            self.layers.append(layer)
            self.load.append(torch.zeros(layer.n_experts, device=self.device))
            layer.on_route = lambda chosen, i=index: self.record(i, chosen)

    def record(self, layer, chosen):
        counts = torch.bincount(chosen.flatten(), minlength=self.layers[layer].n_experts)
        self.load[layer] += counts

    @torch.no_grad()
    def step(self):
        for layer, load in zip(self.layers, self.load):
            layer.bias += self.rate * torch.sign(load.mean() - load)
            load.zero_()


class MoELM(nn.Module):
    def __init__(self, vocab=97, dim=32, depth=4, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(MoELayer(dim, 4, 2) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)
        self.plan = [devices[i * len(devices) // depth] for i in range(depth)]
        self.embed.to(devices[0])
        for layer, device in zip(self.layers, self.plan):
            layer.to(device)
        self.head.to(self.plan[-1])

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for layer, device in zip(self.layers, self.plan):
            x = layer(x.to(device))
        return self.head(x)


def train(steps=3):
    model = MoELM()
    balancer = BiasBalancer()
    balancer.attach(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        ids = torch.randint(0, 97, (4, 16))
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        balancer.step()
    return loss.item()


if __name__ == "__main__":
    print(train())
