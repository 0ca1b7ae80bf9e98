# cause: tensor-created-on-wrong-device|loss-or-label-on-other-device
# guilty: adv
import torch
import torch.nn as nn
from dataclasses import dataclass, fields


@dataclass
class Rollout:
    obs: torch.Tensor
    act: torch.Tensor
    logp: torch.Tensor
    reward: torch.Tensor
    value: torch.Tensor

    def to(self, device):
        return Rollout(*(getattr(self, f.name).to(device) for f in fields(self)))


def gae(reward, value, gamma=0.99, lam=0.95):
    adv = torch.zeros(len(reward))
    run = 0.0
    for t in reversed(range(len(reward))):
        nxt = value[t + 1].item() if t + 1 < len(reward) else 0.0
        run = reward[t].item() + gamma * nxt - value[t].item() + gamma * lam * run
        adv[t] = run
    return (adv - adv.mean()) / (adv.std() + 1e-8)


def surrogate(logp, old, adv, eps=0.2):
    ratio = (logp - old).exp()
    return -torch.min(ratio * adv, ratio.clamp(1 - eps, 1 + eps) * adv).mean()


torch.manual_seed(0)
dev = "cuda:0"
actor = nn.Linear(3, 2).to(dev)
opt = torch.optim.Adam(actor.parameters(), 1e-2)
obs = torch.randn(12, 3)
act = torch.randint(0, 2, (12,))
roll = Rollout(obs, act, torch.full((12,), -0.69), torch.rand(12), torch.rand(12)).to(dev)
adv = gae(roll.reward, roll.value)
for _ in range(3):
    logp = actor(roll.obs).log_softmax(-1).gather(1, roll.act[:, None]).squeeze(1)
    loss = surrogate(logp, roll.logp, adv)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
