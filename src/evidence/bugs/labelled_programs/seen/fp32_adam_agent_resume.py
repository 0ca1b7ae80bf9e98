# cause: optimizer-state-on-other-device
# guilty: exp_avg
# after: facebookresearch/ParlAI#2512
import io

import torch
from torch import nn

class MemoryEfficientAdam(torch.optim.Optimizer):
    """Adam with full-precision states, whatever the dtype of the weights."""
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.98), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad.float(), self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
                    state["exp_avg_sq"] = torch.zeros_like(p, dtype=torch.float32)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                exp_avg.mul_(b1).add_(grad, alpha=1 - b1)
                exp_avg_sq.mul_(b2).addcmul_(grad, grad, value=1 - b2)
                update = exp_avg / exp_avg_sq.sqrt().add_(group["eps"])
                p.add_(update.to(p.dtype), alpha=-group["lr"])
    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        # Optimizer.load_state_dict casts the states to the dtype of the weights: put ours back
        params = [p for g in self.param_groups for p in g["params"]]
        saved = [i for g in state_dict["param_groups"] for i in g["params"]]
        id_map = dict(zip(saved, params))
        for k, v in state_dict["state"].items():
            if k in id_map:
                self.state[id_map[k]] = v

class Agent:
    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 12)).to(device)
        self.optimizer = MemoryEfficientAdam(self.model.parameters())
    def train_step(self, batch):
        batch = batch.to(self.device)
        loss = (self.model(batch) - batch).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
    def save(self, f):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, f)
    def load(self, f):
        states = torch.load(f, map_location=lambda storage, _: storage)
        self.model.load_state_dict(states["model"])
        self.optimizer.load_state_dict(states["optimizer"])

if __name__ == "__main__":
    agent, buf = Agent("cuda"), io.BytesIO()
    for _ in range(3):
        agent.train_step(torch.randn(8, 12))
    agent.save(buf)
    buf.seek(0)
    resumed = Agent("cuda")
    resumed.load(buf)
    print([resumed.train_step(torch.randn(8, 12)) for _ in range(3)])
