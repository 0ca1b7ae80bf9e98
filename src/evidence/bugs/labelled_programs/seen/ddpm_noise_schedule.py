# cause: tensor-created-on-wrong-device
# guilty: a (self.sqrt_alphas_cumprod)
"""DDPM 训练脚本（MNIST 大小的随机图片）。"""
import torch
import torch.nn as nn
import torch.nn.functional as F

TIMESTEPS = 200


def extract(a, t, x_shape):
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


class NoiseSchedule:
    """前向加噪过程需要的所有系数。"""

    def __init__(self, timesteps, beta_start=1e-4, beta_end=0.02):
        betas = torch.linspace(beta_start, beta_end, timesteps)
        alphas = 1.0 - betas
        alphas_cumprod = torch.cumprod(alphas, dim=0)
        self.sqrt_alphas_cumprod = alphas_cumprod.sqrt()
        self.sqrt_one_minus_alphas_cumprod = (1.0 - alphas_cumprod).sqrt()
        self.timesteps = timesteps

    def q_sample(self, x0, t, noise):
        return (
            extract(self.sqrt_alphas_cumprod, t, x0.shape) * x0
            + extract(self.sqrt_one_minus_alphas_cumprod, t, x0.shape) * noise
        )


class SmallUNet(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.time = nn.Embedding(TIMESTEPS, ch)
        self.down = nn.Conv2d(1, ch, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.up = nn.ConvTranspose2d(ch, 1, 4, stride=2, padding=1)

    def forward(self, x, t):
        h = F.silu(self.down(x))
        h = h + self.time(t)[:, :, None, None]
        return self.up(F.silu(self.mid(h)))


def p_losses(model, schedule, x0, t):
    noise = torch.randn_like(x0)
    x_t = schedule.q_sample(x0, t, noise)
    return F.smooth_l1_loss(model(x_t, t), noise)


def main():
    device = torch.device("cuda:1")
    model = SmallUNet().to(device)
    schedule = NoiseSchedule(TIMESTEPS)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        images = torch.rand(8, 1, 28, 28, device=device) * 2 - 1
        t = torch.randint(0, TIMESTEPS, (images.size(0),), device=device).long()
        loss = p_losses(model, schedule, images, t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
