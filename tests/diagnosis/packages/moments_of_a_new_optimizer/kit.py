import torch


class Plain(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "m" not in state:
                    state["m"] = torch.zeros(p.shape)
                m = state["m"]
                m.mul_(0.9).add_(p.grad)
                p.sub_(group["lr"] * m)
