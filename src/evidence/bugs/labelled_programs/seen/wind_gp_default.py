# cause: tensor-created-on-wrong-device|input-not-on-embedding-device
# guilty: a[:, None] - b[None] (a or b or x)
import numpy as np
import torch

torch.set_default_device("cuda:1")


class RBF(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log_len = torch.nn.Parameter(torch.zeros(1))
        self.log_amp = torch.nn.Parameter(torch.zeros(1))
        self.log_noise = torch.nn.Parameter(torch.full((1,), -2.0))

    def kernel(self, a, b):
        d = (a[:, None] - b[None]) / self.log_len.exp()
        return self.log_amp.exp() * torch.exp(-0.5 * d ** 2)

    def nll(self, x, y):
        k = self.kernel(x, x) + (self.log_noise.exp() + 1e-4) * torch.eye(len(x))
        chol = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], chol)
        return 0.5 * (y @ alpha.squeeze(1)) + chol.diagonal().log().sum()


hours = np.linspace(0, 6, 80).astype(np.float32)
speed = (np.sin(hours) + 0.2 * np.random.RandomState(0).randn(80)).astype(np.float32)
x = torch.from_numpy(hours)
y = torch.from_numpy(speed)
gp = RBF()
opt = torch.optim.LBFGS(gp.parameters(), lr=0.1, max_iter=5)


def closure():
    opt.zero_grad()
    loss = gp.nll(x, y)
    loss.backward()
    return loss


for _ in range(3):
    print(opt.step(closure).item())
grid = torch.linspace(0, 7, 20)
with torch.no_grad():
    print(gp.kernel(grid, grid).shape)
