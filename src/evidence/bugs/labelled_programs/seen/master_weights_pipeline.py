# cause: optimizer-state-on-other-device
# guilty: master (master.grad, p.grad)
# line: 24
# repair: build the optimizer after the model was spread: in Session.__init__ call self.model.spread(cards) before MasterWeights(self.model.parameters()) OR create/move the masters lazily in step: master.data = master.data.to(p.device)
import torch
import torch.nn as nn


class MasterWeights:
    """bf16 parameters in the model, fp32 copies in the optimizer."""

    def __init__(self, params, lr, weight_decay=0.0):
        self.params = [p for p in params if p.requires_grad]
        self.masters = [nn.Parameter(p.detach().clone().float()) for p in self.params]
        self.inner = torch.optim.AdamW(self.masters, lr=lr, weight_decay=weight_decay)

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        for p, master in zip(self.params, self.masters):
            if p.grad is not None:
                master.grad = p.grad.float()
        self.inner.step()
        with torch.no_grad():
            for p, master in zip(self.params, self.masters):
                p.copy_(master)


class Expansion(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class CropYieldModel(nn.Module):
    def __init__(self, n_in=14, dim=32, depth=4):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.body = nn.ModuleList(Expansion(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)
        self.cards = None

    def spread(self, cards):
        half = len(self.body) // 2
        self.cards = cards
        self.inp.to(cards[0])
        self.body[:half].to(cards[0])
        self.body[half:].to(cards[1])
        self.out.to(cards[1])
        return self

    def forward(self, x):
        half = len(self.body) // 2
        x = self.inp(x)
        for i, block in enumerate(self.body):
            if i == half:
                x = x.to(self.cards[1])
            x = block(x)
        return self.out(x).squeeze(-1)


class Session:
    def __init__(self, cards, lr=1e-3):
        self.cards = cards
        self.model = CropYieldModel().to(torch.bfloat16)
        self.optimizer = MasterWeights(self.model.parameters(), lr=lr, weight_decay=0.01)
        self.model.spread(cards)

    def field_batch(self, n=32):
        x = torch.randn(n, 14)
        y = x[:, 0] * x[:, 1] + 0.1 * torch.randn(n)
        return x.to(self.cards[0], torch.bfloat16), y.to(self.cards[1])

    def train(self, steps):
        for step in range(steps):
            x, y = self.field_batch()
            loss = nn.functional.mse_loss(self.model(x).float(), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(step, round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    Session(["cuda:0", "cuda:1"]).train(3)
