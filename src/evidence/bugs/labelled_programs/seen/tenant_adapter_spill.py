# cause: adapter-weights-on-other-device
# guilty: self.down[self.active] (self.up[self.active])
# line: 35
# repair: in AdapterLinear.add take the device of the layer the adapter belongs to, self.base.weight.device, instead of next(self.down.parameters()).device, which is where an older adapter was spilled to
"""Serve per-tenant adapters over one model; idle adapters are spilled to the second card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AdapterLinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base, self.rank, self.active = base, rank, None
        self.down, self.up = nn.ModuleDict(), nn.ModuleDict()

    def add(self, name):
        """Join the adapters that are there already; the first one goes to the layer itself."""
        if len(self.down):
            device = next(self.down.parameters()).device
        else:
            device = self.base.weight.device
        self.down[name] = nn.Linear(self.base.in_features, self.rank, bias=False, device=device)
        self.up[name] = nn.Linear(self.rank, self.base.out_features, bias=False, device=device)
        nn.init.normal_(self.up[name].weight, std=0.02)

    def move(self, name, device):
        self.down[name].to(device)
        self.up[name].to(device)

    def forward(self, x):
        y = self.base(x)
        if self.active is None:
            return y
        return y + self.up[self.active](self.down[self.active](x))


class IntentModel(nn.Module):
    def __init__(self, vocab=90, dim=32, intents=6):
        super().__init__()
        self.table = nn.EmbeddingBag(vocab, dim)
        self.hidden = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, intents)

    def forward(self, ids):
        return self.out(F.gelu(self.hidden(self.table(ids))))


class TenantHub:
    def __init__(self, model, spill):
        self.model, self.spill = model, torch.device(spill)
        for name in ("hidden", "out"):
            setattr(model, name, AdapterLinear(getattr(model, name)))
        self.layers = [m for m in model.modules() if isinstance(m, AdapterLinear)]
        self.tenants, self.spilled = [], set()

    def enrol(self, tenant):
        for layer in self.layers:
            layer.add(tenant)
        self.tenants.append(tenant)

    def rest(self, tenant):
        for layer in self.layers:
            layer.move(tenant, self.spill)
        self.spilled.add(tenant)

    def wake(self, tenant):
        if tenant in self.spilled:
            for layer in self.layers:
                layer.move(tenant, layer.base.weight.device)
            self.spilled.discard(tenant)

    def use(self, tenant):
        if tenant is not None:
            self.wake(tenant)
        for layer in self.layers:
            layer.active = tenant

    def parameters(self, tenant):
        for layer in self.layers:
            yield from layer.down[tenant].parameters()
            yield from layer.up[tenant].parameters()


def fit(hub, tenant, card, steps=5):
    hub.use(tenant)
    optimizer = torch.optim.AdamW(hub.parameters(tenant), lr=1e-2)
    for _ in range(steps):
        ids, intents = torch.randint(0, 90, (8, 7), device=card), torch.randint(0, 6, (8,), device=card)
        loss = F.cross_entropy(hub.model(ids), intents)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    card = torch.device("cuda:0")
    model = IntentModel().to(card).requires_grad_(False)
    hub = TenantHub(model, spill="cuda:1")
    for tenant in ("bank", "airline"):
        hub.enrol(tenant)
        print(tenant, round(fit(hub, tenant, card), 3))
    hub.rest("bank")
    hub.use("airline")
    print("airline", model(torch.randint(0, 90, (1, 5), device=card)).argmax(-1).item())
    hub.enrol("hotel")
    print("hotel", round(fit(hub, "hotel", card), 3))
    hub.use("bank")
    print("bank", model(torch.randint(0, 90, (1, 5), device=card)).argmax(-1).item())


if __name__ == "__main__":
    main()
