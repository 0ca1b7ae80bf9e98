# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices
# guilty: context (text, memory)
# line: 27
# repair: in StoryboardPipeline.encode_prompt store the tensor that was moved (self._memo[text] = emb.to(self.unet_device)) or move on the early return too: return self._memo[text].to(self.unet_device)
import torch
import torch.nn as nn
import torch.nn.functional as F


class PromptEncoder(nn.Module):
    def __init__(self, vocab=300, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        return self.mix(self.embed(ids))[0]


class CrossAttention(nn.Module):
    def __init__(self, dim, ctx):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(ctx, 2 * dim)

    def forward(self, x, context):
        k, v = self.kv(context).chunk(2, dim=-1)
        return x + F.scaled_dot_product_attention(self.q(x), k, v)


class Denoiser(nn.Module):
    def __init__(self, channels=4, dim=32, ctx=32):
        super().__init__()
        self.inp = nn.Conv2d(channels, dim, 3, padding=1)
        self.time = nn.Linear(1, dim)
        self.cross = CrossAttention(dim, ctx)
        self.out = nn.Conv2d(dim, channels, 3, padding=1)

    def forward(self, z, t, context):
        h = self.inp(z) + self.time(t[:, None])[:, :, None, None]
        b, c, hh, ww = h.shape
        tokens = self.cross(h.flatten(2).transpose(1, 2), context)
        return self.out(tokens.transpose(1, 2).reshape(b, c, hh, ww))


class StoryboardPipeline:
    """Encoder on one card, denoiser on the other; the same negative prompt returns for every panel."""

    def __init__(self, encoder_device="cuda:1", unet_device="cuda:0"):
        self.encoder_device, self.unet_device = encoder_device, unet_device
        self.encoder = PromptEncoder().to(encoder_device).eval()
        self.unet = Denoiser().to(unet_device).eval()
        self._memo = {}

    def tokenize(self, text, length=8):
        ids = [ord(ch) % 300 for ch in text][:length]
        ids += [0] * (length - len(ids))
        return torch.tensor([ids], device=self.encoder_device)

    def encode_prompt(self, text):
        if text in self._memo:
            return self._memo[text]
        emb = self.encoder(self.tokenize(text))
        self._memo[text] = emb
        return emb.to(self.unet_device)

    @torch.no_grad()
    def __call__(self, prompt, negative="", steps=4, scale=5.0, seed=0):
        cond = self.encode_prompt(prompt)
        uncond = self.encode_prompt(negative)
        gen = torch.Generator(self.unet_device).manual_seed(seed)
        z = torch.randn(1, 4, 8, 8, generator=gen, device=self.unet_device)
        for t in torch.linspace(1, 0.1, steps, device=self.unet_device):
            eps_u = self.unet(z, t[None], uncond)
            eps_c = self.unet(z, t[None], cond)
            z = z - (eps_u + scale * (eps_c - eps_u)) / steps
        return z


if __name__ == "__main__":
    pipe = StoryboardPipeline()
    for panel, line in enumerate(["a fox in snow", "the fox sleeps", "morning light"]):
        image = pipe(line, negative="blurry", seed=panel)
        print(panel, image.std().item())
