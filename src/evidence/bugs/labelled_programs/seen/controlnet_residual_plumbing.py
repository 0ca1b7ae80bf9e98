# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices
# guilty: extra (residuals, control["down"])
# line: 48
# repair: in ControlledDenoiser.predict move every entry of control["down"] to the unet's device, as is done for control["mid"] OR in TinyUNet.forward add extra.to(skip.device)
"""A control branch on the second card feeds its residuals to the denoiser on the first."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Down(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=2, padding=1)

    def forward(self, x):
        return F.silu(self.conv(x))


class Encoder(nn.Module):
    def __init__(self, cin, widths):
        super().__init__()
        self.downs = nn.ModuleList(Down(a, b) for a, b in zip([cin] + widths[:-1], widths))
        self.mid = nn.Conv2d(widths[-1], widths[-1], 3, padding=1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
        return {"down": skips, "mid": self.mid(x)}


class TinyUNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.encoder = Encoder(4, widths)
        outs = widths[-2::-1] + [4]
        self.ups = nn.ModuleList(nn.Conv2d(w, v, 3, padding=1) for w, v in zip(widths[::-1], outs))

    def forward(self, x, mid_residual=None, residuals=()):
        enc = self.encoder(x)
        h = enc["mid"] if mid_residual is None else enc["mid"] + mid_residual
        for i, up in enumerate(self.ups):
            skip = enc["down"][-1 - i]
            if residuals:
                extra = residuals[-1 - i]
                skip = skip + extra
            h = F.interpolate(up(h + skip), scale_factor=2.0)
        return h


class ControlledDenoiser:
    def __init__(self, widths, unet_device, control_device):
        self.unet = TinyUNet(widths).to(unet_device).eval()
        self.control = Encoder(7, widths).to(control_device).eval()
        self.unet_device = unet_device
        self.control_device = control_device

    @torch.no_grad()
    def predict(self, latents, hint):
        joint = torch.cat([latents.to(self.control_device), hint.to(self.control_device)], dim=1)
        control = self.control(joint)
        mid = control["mid"].to(self.unet_device)
        return self.unet(latents.to(self.unet_device), mid_residual=mid, residuals=control["down"])

    def denoise(self, latents, hint, steps=3):
        latents = latents.to(self.unet_device)
        for _ in range(steps):
            latents = latents - self.predict(latents, hint) / steps
        return latents


if __name__ == "__main__":
    torch.manual_seed(1)
    pipe = ControlledDenoiser([8, 16], "cuda:0", "cuda:1")
    image = pipe.denoise(torch.randn(1, 4, 16, 16), torch.rand(1, 3, 16, 16))
    print(image.shape, float(image.std()))
