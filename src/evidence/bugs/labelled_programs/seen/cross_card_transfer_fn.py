# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: grad (grad_output, the gradient returned by CardHop.backward, loss)
# line: 65
# repair: in CardHop.forward remember the source (ctx.source = x.device) and in backward return grad.to(ctx.source), None, None OR replace CardHop.apply by x.to(target)
import torch
import torch.nn as nn


class CardHop(torch.autograd.Function):
    """Copies to another card and scales the gradient on the way back."""

    @staticmethod
    def forward(ctx, x, target, scale):
        ctx.scale = scale
        return x.to(target)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None, None


class Generator(nn.Module):
    def __init__(self, latent=16, side=8):
        super().__init__()
        self.side = side
        self.net = nn.Sequential(nn.Linear(latent, 64), nn.LeakyReLU(0.2), nn.Linear(64, side * side))

    def forward(self, z):
        return torch.tanh(self.net(z)).view(-1, 1, self.side, self.side)


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.fc = nn.Linear(8 * 4 * 4, 1)

    def forward(self, img):
        h = torch.relu(self.conv(img))
        return self.fc(h.flatten(1)).squeeze(1)


def real_batch(n, side=8):
    ramp = torch.linspace(-1, 1, side)
    base = ramp[None, :, None] * ramp[None, None, :]
    return (base + 0.05 * torch.randn(n, side, side)).unsqueeze(1)


def judge_step(gen, judge, opt, n, latent):
    with torch.no_grad():
        fake = gen(torch.randn(n, latent, device="cuda:0")).to("cuda:1")
    real = real_batch(n).to("cuda:1")
    loss = torch.relu(1 - judge(real)).mean() + torch.relu(1 + judge(fake)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def generator_step(gen, judge, opt, n, latent, scale=0.5):
    fake = gen(torch.randn(n, latent, device="cuda:0"))
    verdict = judge(CardHop.apply(fake, "cuda:1", scale))
    loss = -verdict.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main(latent=16, n=12, rounds=3):
    torch.manual_seed(11)
    gen = Generator(latent).to("cuda:0")
    judge = Judge().to("cuda:1")
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.99))
    for r in range(rounds):
        d = judge_step(gen, judge, opt_d, n, latent)
        g = generator_step(gen, judge, opt_g, n, latent)
        print(f"round {r} judge {d:.3f} gen {g:.3f}")


if __name__ == "__main__":
    main()
