# cause: generator-or-default-device
# guilty: self.generator (generator)
"""Reproducible story sampling from a recurrent model whose stages are on two GPUs."""
import torch
import torch.nn as nn


class SamplerConfig:
    def __init__(self, temperature=0.8, top_p=0.9, seed=0):
        self.temperature, self.top_p, self.seed = temperature, top_p, seed


class TokenSampler:
    def __init__(self, config):
        self.config = config
        self.generator = torch.Generator()
        self.generator.manual_seed(config.seed)

    def nucleus(self, logits):
        probs, order = (logits / self.config.temperature).softmax(-1).sort(descending=True)
        drop = probs.cumsum(-1) - probs > self.config.top_p
        probs = probs.masked_fill(drop, 0.0)
        return probs / probs.sum(-1, keepdim=True), order

    def __call__(self, logits):
        probs, order = self.nucleus(logits)
        choice = torch.multinomial(probs, 1, generator=self.generator)
        return order.gather(-1, choice)


class GreedySampler:
    def __init__(self, config):
        self.config = config

    def __call__(self, logits):
        return logits.argmax(-1, keepdim=True)


SAMPLERS = {"nucleus": TokenSampler, "greedy": GreedySampler}


class StagedGRU(nn.Module):
    def __init__(self, vocab, dim, devices):
        super().__init__()
        self.devices = devices
        self.embed = nn.Embedding(vocab, dim).to(devices[0])
        self.lower = nn.GRUCell(dim, dim).to(devices[0])
        self.upper = nn.GRUCell(dim, dim).to(devices[1])
        self.head = nn.Linear(dim, vocab).to(devices[1])

    def start(self, batch):
        dim = self.lower.hidden_size
        return [torch.zeros(batch, dim, device=d) for d in self.devices]

    def forward(self, token, state):
        a = self.lower(self.embed(token.to(self.devices[0])), state[0])
        b = self.upper(a.to(self.devices[1]), state[1])
        return self.head(b), [a, b]


class Engine:
    def __init__(self, model, sampler):
        self.model, self.sampler = model, sampler

    @torch.no_grad()
    def generate(self, prompts, length):
        state = self.model.start(len(prompts))
        for column in torch.tensor(prompts).t():
            logits, state = self.model(column, state)
        out = []
        for _ in range(length):
            token = self.sampler(logits)
            out.append(token.cpu())
            logits, state = self.model(token.squeeze(1), state)
        return torch.cat(out, dim=1)


def build_engine(kind, config, devices):
    return Engine(StagedGRU(64, 32, devices).eval(), SAMPLERS[kind](config))


if __name__ == "__main__":
    torch.manual_seed(0)
    for kind in ("greedy", "nucleus"):
        engine = build_engine(kind, SamplerConfig(seed=7), ["cuda:0", "cuda:1"])
        print(kind, engine.generate([[1, 2, 3], [4, 5, 6]], length=8).tolist())
