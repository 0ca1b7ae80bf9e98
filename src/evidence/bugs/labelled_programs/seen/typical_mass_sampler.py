# cause: generator-or-default-device
# guilty: self.generator (generator)
# line: 54
# repair: in Sampler.__init__ build the generator on the card of the logits: torch.Generator(device=device).manual_seed(seed), with model.head.weight.device passed by build_sampler OR draw on the host: torch.multinomial(probs.cpu(), 1, generator=self.generator).to(probs.device)
"""Text generation with pluggable filters (typical, top-k, temperature) and seeded sampling."""
import torch
import torch.nn as nn

FILTERS = {}


def filter_(name):
    def wrap(fn):
        FILTERS[name] = fn
        return fn
    return wrap


@filter_("temperature")
def temperature(logits, value=0.8):
    return logits / value


@filter_("top_k")
def top_k(logits, k=20):
    edge = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < edge, float("-inf"))


@filter_("typical")
def typical(logits, mass=0.9):
    logp = logits.log_softmax(-1)
    p = logp.exp()
    entropy = -(p * logp).nan_to_num(0.0).sum(-1, keepdim=True)
    order = (-logp - entropy).abs().argsort(-1)
    cum = p.gather(-1, order).cumsum(-1)
    drop = (cum > mass).roll(1, -1)
    drop[..., 0] = False
    return logits.masked_fill(drop.gather(-1, order.argsort(-1)), float("-inf"))


class Sampler:
    def __init__(self, steps, seed=None):
        self.steps = [(FILTERS[name], options) for name, options in steps]
        self.generator = None
        if seed is not None:
            self.generator = torch.Generator()
            self.generator.manual_seed(seed)

    def __call__(self, logits):
        for fn, options in self.steps:
            logits = fn(logits, **options)
        probs = logits.softmax(-1)
        return torch.multinomial(probs, 1, generator=self.generator)


def build_sampler(config):
    return Sampler(config.get("filters", []), seed=config.get("seed"))


class TwoCardGRU(nn.Module):
    def __init__(self, vocab=60, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to("cuda:0")
        self.low = nn.GRU(dim, dim, batch_first=True).to("cuda:0")
        self.high = nn.GRU(dim, dim, batch_first=True).to("cuda:1")
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def forward(self, ids, state=None):
        low, high = state if state is not None else (None, None)
        x, low = self.low(self.embed(ids.to("cuda:0")), low)
        x, high = self.high(x.to("cuda:1"), high)
        return self.head(x[:, -1]), (low, high)


class Generator:
    def __init__(self, model, sampler):
        self.model, self.sampler = model.eval(), sampler

    @torch.inference_mode()
    def __call__(self, prompt, length):
        ids = torch.tensor([prompt])
        logits, state = self.model(ids)
        out = list(prompt)
        for _ in range(length):
            token = self.sampler(logits)
            out.append(int(token))
            logits, state = self.model(token, state)
        return out


if __name__ == "__main__":
    torch.manual_seed(0)
    config = {"filters": [("temperature", {"value": 0.7}), ("typical", {"mass": 0.95})], "seed": 17}
    write = Generator(TwoCardGRU(), build_sampler(config))
    print(write([5, 9, 12], 8))
