# cause: module-left-on-other-device|adapter-weights-on-other-device
# guilty: self.to_key (to_value, to_key.weight)
# line: 29
# repair: place each new processor beside the attention it serves: processor.to(attention.query.weight.device) in set_image_prompt() instead of unet.device OR install the processors before spread() moves the halves OR call unet.spread() again after installing them
"""Image-prompted denoising: the attention processors of a U-Net that spans two cards are swapped for ones that read an image."""
import torch
from torch import nn
from torch.nn import functional as F


class PlainProcessor:
    def __call__(self, attention, tokens, context):
        q, k, v = attention.query(tokens), attention.key(context), attention.value(context)
        return attention.out(F.scaled_dot_product_attention(q, k, v))


class ImagePromptProcessor(nn.Module):
    def __init__(self, dim, image_dim, scale=0.6):
        super().__init__()
        self.scale = scale
        self.to_key = nn.Linear(image_dim, dim, bias=False)
        self.to_value = nn.Linear(image_dim, dim, bias=False)
        self.image = None

    def forward(self, attention, tokens, context):
        q, k, v = attention.query(tokens), attention.key(context), attention.value(context)
        text = F.scaled_dot_product_attention(q, k, v)
        image = self.image.to(tokens.device).expand(len(tokens), -1, -1)
        look = F.scaled_dot_product_attention(q, self.to_key(image), self.to_value(image))
        return attention.out(text + self.scale * look)


class CrossAttention(nn.Module):
    def __init__(self, dim, context_dim):
        super().__init__()
        self.dim = dim
        self.query, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.key, self.value = nn.Linear(context_dim, dim), nn.Linear(context_dim, dim)
        self.processor = PlainProcessor()

    def set_processor(self, processor):
        del self.processor
        self.processor = processor

    def forward(self, x, context):
        b, c, h, w = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        return x + self.processor(self, tokens, context).transpose(1, 2).reshape(b, c, h, w)


class Level(nn.Module):
    def __init__(self, cin, cout, context_dim):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU())
        self.cross = CrossAttention(cout, context_dim)

    def forward(self, x, context):
        return self.cross(self.conv(x), context)


class SplitUNet(nn.Module):
    def __init__(self, width=16, context_dim=24):
        super().__init__()
        self.down = nn.ModuleList([Level(4, width, context_dim), Level(width, 2 * width, context_dim)])
        self.up = nn.ModuleList([Level(4 * width, width, context_dim), Level(2 * width, width, context_dim)])
        self.leave = nn.Conv2d(width, 4, 1)

    def spread(self, first, second):
        self.cards = (torch.device(first), torch.device(second))
        self.down.to(first)
        self.up.to(second)
        self.leave.to(second)
        return self

    @property
    def device(self):
        return next(self.parameters()).device

    def attentions(self):
        return [m for m in self.modules() if isinstance(m, CrossAttention)]

    def forward(self, x, context):
        first, second = self.cards
        skips, h, near = [], x.to(first), context.to(first)
        for level in self.down:
            h = level(h, near)
            skips.append(h)
        far, h = context.to(second), skips[-1].to(second)
        for level in self.up:
            h = level(torch.cat([h, skips.pop().to(second)], 1), far)
        return self.leave(h).to(x.device)


def set_image_prompt(unet, image_tokens):
    for attention in unet.attentions():
        processor = ImagePromptProcessor(attention.dim, image_tokens.size(-1))
        processor.image = image_tokens
        attention.set_processor(processor.to(unet.device))


@torch.no_grad()
def sample(unet, context, steps=4):
    x = torch.randn(len(context), 4, 8, 8, device=unet.device)
    for i in range(steps):
        x = x - unet(x, context) / steps
    return x


def main():
    torch.manual_seed(0)
    unet = SplitUNet().spread("cuda:0", "cuda:1").eval()
    context = torch.randn(2, 6, 24, device=unet.device)
    print("text only", sample(unet, context).std().item())
    picture = torch.randn(1, 3, 20, device=unet.device)
    set_image_prompt(unet, picture)
    print("text and image", sample(unet, context).std().item())


if __name__ == "__main__":
    main()
