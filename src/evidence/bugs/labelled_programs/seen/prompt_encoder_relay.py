# cause: embedding-streams-on-different-devices|extra-input-on-wrong-device
# guilty: context (prompt_embeds, encoder states)
# line: 37
# repair: encode_prompt should return on the denoiser's card: call self.encode_prompt(prompts, device=self.unet_device) in TextToImage.__call__ (the default is the text encoder's own device) OR context = context.to(x.device) in CrossAttention.forward
"""Text to image in miniature; the text encoder lives on the second card."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=128, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 4, 48, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    @property
    def device(self):
        return self.embed.weight.device

    def forward(self, ids):
        return self.layers(self.embed(ids))


class CrossAttention(nn.Module):
    def __init__(self, channels, context_width):
        super().__init__()
        self.q = nn.Linear(channels, channels)
        self.kv = nn.Linear(context_width, 2 * channels)

    def forward(self, x, context):
        b, c, h, w = x.shape
        q = self.q(x.flatten(2).transpose(1, 2))
        k, v = self.kv(context).chunk(2, -1)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + mixed.transpose(1, 2).reshape(b, c, h, w)


class TinyUNet(nn.Module):
    def __init__(self, channels=16, context_width=24):
        super().__init__()
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.cross = CrossAttention(channels, context_width)
        self.up = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.leave = nn.Conv2d(2 * channels, 4, 3, padding=1)

    def forward(self, x, t, context):
        wave = torch.sin(t[:, None].float() / torch.arange(1, 17, device=x.device) * math.pi)
        h = F.silu(self.enter(x) + wave[:, :, None, None])
        d = self.cross(F.silu(self.down(h)), context)
        return self.leave(torch.cat([h, F.silu(self.up(d))], dim=1))


class TextToImage:
    def __init__(self, text_encoder, unet, text_device, unet_device):
        self.text_encoder = text_encoder.to(text_device).eval()
        self.unet = unet.to(unet_device).eval()
        self.unet_device = torch.device(unet_device)
        self._cache = {}

    def encode_prompt(self, prompts, device=None):
        device = device or self.text_encoder.device
        key = (tuple(prompts), str(device))
        if key not in self._cache:
            rows = [[ord(c) % 128 for c in p[:12].ljust(12)] for p in prompts]
            ids = torch.tensor(rows, device=self.text_encoder.device)
            empty = torch.zeros_like(ids)
            both = self.text_encoder(torch.cat([empty, ids]))
            self._cache[key] = both.to(device)
        return self._cache[key]

    @torch.no_grad()
    def __call__(self, prompts, steps=4, guidance=5.0, size=8):
        embeds = self.encode_prompt(prompts)
        x = torch.randn(len(prompts), 4, size, size, device=self.unet_device)
        for step in range(steps, 0, -1):
            t = torch.full((2 * len(prompts),), step, device=self.unet_device)
            free, bound = self.unet(torch.cat([x, x]), t, embeds).chunk(2)
            x = x - (free + guidance * (bound - free)) / steps
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = TextToImage(TextEncoder(), TinyUNet(), text_device="cuda:1", unet_device="cuda:0")
    print(pipe(["a red boat", "an old map"]).std().item())
