# cause: embedding-streams-on-different-devices|tensor-created-on-wrong-device
# guilty: null (self.null_states)
# line: 56
# repair: move the cached states in GuidedPipeline.to (self.null_states = self.null_states.to(text_device)) OR compute them after the placement (in __call__), OR null.to(states.device) in encode
"""Text-guided sampler: the components come from a table, the denoiser has its own card."""
import torch
import torch.nn as nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=128, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, ids):
        return self.layer(self.embed(ids))


class Denoiser(nn.Module):
    def __init__(self, dim=16, width=16):
        super().__init__()
        self.inp, self.out = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.cond, self.time = nn.Linear(dim, width), nn.Linear(1, width)

    def forward(self, x, sigma, states):
        h = self.inp(x) + (self.cond(states.mean(1)) + self.time(sigma))[:, :, None, None]
        return self.out(torch.tanh(h))


COMPONENTS = {"text_encoder": TextEncoder, "denoiser": Denoiser}


class GuidedPipeline:
    def __init__(self, length=8, scale=4.0, **overrides):
        self.names = list(COMPONENTS)
        for name, cls in COMPONENTS.items():
            setattr(self, name, overrides.get(name) or cls().eval())
        self.length, self.scale = length, scale
        with torch.no_grad():
            self.null_states = self.text_encoder(self.tokenize([""]))

    def to(self, placement):
        for name in self.names:
            getattr(self, name).to(placement[name])
        self.text_device, self.device = placement["text_encoder"], placement["denoiser"]
        return self

    def tokenize(self, prompts):
        rows = [[min(ord(c), 127) for c in p[:self.length]] for p in prompts]
        return torch.tensor([r + [0] * (self.length - len(r)) for r in rows])

    def encode(self, prompts):
        states = self.text_encoder(self.tokenize(prompts).to(self.text_device))
        null = self.null_states.expand(len(prompts), -1, -1)
        return torch.cat([null, states]).to(self.device)

    def sigmas(self, steps):
        return torch.linspace(1.0, 0.0, steps + 1, device=self.device)

    @torch.no_grad()
    def __call__(self, prompts, steps=5, seed=0):
        states = self.encode(prompts)
        generator = torch.Generator(self.device).manual_seed(seed)
        x = torch.randn(len(prompts), 4, 8, 8, device=self.device, generator=generator)
        levels = self.sigmas(steps)
        for now, then in zip(levels[:-1], levels[1:]):
            sigma = now.expand(2 * len(prompts), 1)
            without, given = self.denoiser(torch.cat([x, x]), sigma, states).chunk(2)
            x = x + (then - now) * (without + self.scale * (given - without))
        return x.cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = GuidedPipeline().to({"text_encoder": "cuda:0", "denoiser": "cuda:1"})
    print(pipe(["a red bird", "a tree"]).std())
