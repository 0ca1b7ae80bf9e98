# cause: tensor-created-on-wrong-device
# guilty: GRAVITY
import torch

DEV = torch.device("cuda:0")
GRAVITY = torch.tensor([0.0, -9.81])


class Springs:
    def __init__(self, n, device):
        x = torch.linspace(0, 1, n, device=device)
        self.pos = torch.stack([x, torch.zeros_like(x)], 1)
        self.vel = torch.zeros_like(self.pos)
        self.rest = 1.0 / (n - 1)

    def force(self):
        d = self.pos[1:] - self.pos[:-1]
        length = d.norm(dim=1, keepdim=True).clamp(min=1e-6)
        pull = 40.0 * (length - self.rest) * d / length
        f = torch.zeros_like(self.pos)
        f[:-1] += pull
        f[1:] -= pull
        return f + GRAVITY

    def step(self, dt=1e-3):
        self.vel += dt * self.force()
        self.vel[0] = 0
        self.vel[-1] = 0
        self.pos = self.pos + dt * self.vel

    def energy(self):
        return 0.5 * self.vel.pow(2).sum()


def main():
    chain = Springs(9, DEV)
    for k in range(20):
        chain.step()
    print("kinetic", chain.energy().item(), "sag", chain.pos[:, 1].min().item())


if __name__ == "__main__":
    main()
