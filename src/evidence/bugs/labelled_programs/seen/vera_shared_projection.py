# cause: adapter-weights-on-other-device|tensor-created-on-wrong-device
# guilty: self.bank.A (bank.A, A, self.bank.B)
# line: 47
# repair: in SharedBank.get put the device into the key (key = (n_in, n_out, weight.device)), so that each card gets its own pair of the same seed OR in VeraLinear.forward write F.linear(x, self.bank.A.to(x.device)) and F.linear(h, self.bank.B.to(x.device))
import torch
import torch.nn as nn
import torch.nn.functional as F

"""Vector-based random matrix adaptation: one frozen pair (A, B) for all layers of the same shape."""


class Projection:
    def __init__(self, n_in, n_out, rank, device, seed=7):
        gen = torch.Generator().manual_seed(seed)
        self.A = (torch.randn(rank, n_in, generator=gen) / n_in ** 0.5).to(device)
        self.B = (torch.randn(n_out, rank, generator=gen) / rank ** 0.5).to(device)


class SharedBank:
    """Frozen projections, kept once per shape so that the adapter file stays tiny."""

    def __init__(self, rank):
        self.rank = rank
        self._pairs = {}

    def get(self, weight):
        n_out, n_in = weight.shape
        key = (n_in, n_out)
        if key not in self._pairs:
            self._pairs[key] = Projection(n_in, n_out, self.rank, weight.device)
        return self._pairs[key]


class VeraLinear(nn.Module):
    def __init__(self, base, bank):
        super().__init__()
        self.base = base
        self.bank = bank.get(base.weight)
        dev = base.weight.device
        self.lambda_d = nn.Parameter(torch.full((bank.rank,), 0.1, device=dev))
        self.lambda_b = nn.Parameter(torch.zeros(base.out_features, device=dev))
        base.weight.requires_grad_(False)
        if base.bias is not None:
            base.bias.requires_grad_(False)

    def forward(self, x):
        h = F.linear(x, self.bank.A) * self.lambda_d
        return self.base(x) + F.linear(h, self.bank.B) * self.lambda_b


class MixerBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class TwoCardMixer(nn.Module):
    def __init__(self, dim=32, depth=4, n_class=5):
        super().__init__()
        half = depth // 2
        self.devices = ["cuda:0"] * half + ["cuda:1"] * (depth - half)
        self.blocks = nn.ModuleList(MixerBlock(dim).to(d) for d in self.devices)
        self.head = nn.Linear(dim, n_class).to(self.devices[-1])

    def forward(self, x):
        for block, device in zip(self.blocks, self.devices):
            x = block(x.to(device))
        return self.head(x.mean(1))


def inject(model, bank, targets=("up", "down")):
    n = 0
    for module in list(model.modules()):
        for name in targets:
            child = getattr(module, name, None)
            if isinstance(child, nn.Linear):
                setattr(module, name, VeraLinear(child, bank))
                n += 1
    return n


def train(model, steps=3):
    params = [p for n, p in model.named_parameters() if "lambda_" in n]
    opt = torch.optim.AdamW(params, lr=1e-2)
    for step in range(steps):
        x = torch.randn(8, 12, 32, device="cuda:0")
        y = torch.randint(0, 5, (8,), device="cuda:1")
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = TwoCardMixer()
    print("wrapped", inject(net, SharedBank(rank=8)))
    train(net)
