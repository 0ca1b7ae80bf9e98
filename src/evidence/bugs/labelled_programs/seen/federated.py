# cause: block-split-across-devices|optimizer-state-on-other-device
# guilty: mean
import copy
import torch
import torch.nn as nn


class Server:
    def __init__(self, model, lr=0.5):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr)

    def merge(self, reports):
        weight = 1.0 / len(reports)
        for i, p in enumerate(self.model.parameters()):
            mean = sum(r[i] * weight for r in reports)
            p.grad = mean
        self.opt.step()
        self.opt.zero_grad()


class Client:
    def __init__(self, data, device):
        self.x, self.y = (t.to(device) for t in data)
        self.device = device

    def work(self, model):
        local = copy.deepcopy(model).to(self.device)
        loss = nn.functional.mse_loss(local(self.x), self.y)
        grads = torch.autograd.grad(loss, list(local.parameters()))
        return [g.detach() for g in grads], loss.item()


def data():
    x = torch.randn(20, 3)
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]])


torch.manual_seed(0)
server = Server(nn.Linear(3, 1).to("cuda:0"))
clients = [Client(data(), "cuda:1") for _ in range(3)]
for rnd in range(3):
    answers = [c.work(server.model) for c in clients]
    server.merge([a[0] for a in answers])
    print(rnd, sum(a[1] for a in answers) / len(answers))
