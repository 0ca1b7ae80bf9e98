# cause: tensor-created-on-wrong-device
# guilty: tasks
# after: meta-pytorch/botorch#1323
import torch
from torch import nn


class TaskKernel(nn.Module):
    def __init__(self, tasks, rank=1):
        super().__init__()
        self.tasks = tasks
        self.factor = nn.Parameter(torch.randn(tasks, rank))
        self.log_var = nn.Parameter(torch.zeros(tasks))

    def matrix(self):
        return self.factor @ self.factor.t() + torch.diag(self.log_var.exp())

    def forward(self, left, right):
        return self.matrix().index_select(0, left).index_select(1, right)


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.kernel = TaskKernel(tasks)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        tasks = torch.arange(self.kernel.tasks)
        near = torch.exp(-torch.cdist(x, x).square() / self.log_scale.exp())
        return torch.kron(near, self.kernel(tasks, tasks))


model = MultiTask(2).to("cuda:0")
x, y = torch.rand(6, 3, device="cuda:0"), torch.rand(12, device="cuda:0")
covariance = model(x) + 0.1 * torch.eye(12, device="cuda:0")
loss = -torch.distributions.MultivariateNormal(torch.zeros_like(y), covariance).log_prob(y)
loss.backward()
