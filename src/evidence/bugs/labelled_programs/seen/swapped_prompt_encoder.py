# cause: input-not-on-embedding-device|weights-moved-away-by-manager
# guilty: ids
# line: 18
# repair: in PanelPainter.encode_prompt send the ids to the card the encoder runs on, ids.to(self.residency.card_of[self.text_encoder]) (a stored execution device), not to the device its parked parameters have at the moment OR let the pre-forward hook of Residency move the arguments as well as the weights
"""Comic panel generator: the text encoder lives on the host and comes to its card only while it runs."""
import torch
import torch.nn as nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=128, dim=32, length=12):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True) for _ in range(2))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return x


class Denoiser(nn.Module):
    def __init__(self, channels=4, dim=32):
        super().__init__()
        self.inp = nn.Conv2d(channels, dim, 3, padding=1)
        self.attend = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.time = nn.Linear(1, dim)
        self.out = nn.Conv2d(dim, channels, 3, padding=1)

    def forward(self, x, t, context):
        h = self.inp(x) + self.time(t)[:, :, None, None]
        flat = h.flatten(2).transpose(1, 2)
        flat = flat + self.attend(flat, context, context, need_weights=False)[0]
        return self.out(flat.transpose(1, 2).reshape(h.shape))


class Residency:
    """Keeps modules on the host; brings one to its card for the length of a forward."""

    def __init__(self):
        self.card_of = {}

    def manage(self, module, card):
        self.card_of[module] = torch.device(card)
        module.to("cpu")
        module.register_forward_pre_hook(self.bring)
        module.register_forward_hook(self.park)

    def bring(self, module, args):
        module.to(self.card_of[module])

    def park(self, module, args, output):
        module.to("cpu")
        return output


class PanelPainter:
    def __init__(self, paint_card, text_card):
        self.card = torch.device(paint_card)
        self.text_encoder = TextEncoder().eval()
        self.denoiser = Denoiser().eval().to(self.card)
        self.residency = Residency()
        self.residency.manage(self.text_encoder, text_card)

    def tokenize(self, prompts, length=12):
        rows = [[ord(c) % 128 for c in p[:length]] for p in prompts]
        return torch.tensor([r + [0] * (length - len(r)) for r in rows])

    def encode_prompt(self, prompts):
        device = next(self.text_encoder.parameters()).device
        ids = self.tokenize(prompts).to(device)
        return self.text_encoder(ids).to(self.card)

    @torch.no_grad()
    def __call__(self, prompts, steps=4, guidance=3.0):
        context = self.encode_prompt(prompts)
        empty = self.encode_prompt([""] * len(prompts))
        x = torch.randn(len(prompts), 4, 8, 8, device=self.card)
        for step in range(steps):
            t = torch.full((len(prompts), 1), 1 - step / steps, device=self.card)
            plain, led = self.denoiser(x, t, empty), self.denoiser(x, t, context)
            x = x - (plain + guidance * (led - plain)) / steps
        return x.clamp(-1, 1)


def main():
    torch.manual_seed(0)
    painter = PanelPainter(paint_card="cuda:0", text_card="cuda:1")
    for prompts in (["a fox", "rain on tin"], ["harbour at dusk"]):
        panels = painter(prompts)
        print(prompts, tuple(panels.shape), round(panels.std().item(), 3))


if __name__ == "__main__":
    main()
