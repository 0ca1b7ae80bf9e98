# cause: loss-or-label-on-other-device
# guilty: ref_logp (batch["ref_logp"], logp)
# line: 59
# repair: in RolloutMaker.collect bring the reference log-probabilities to the policy's card before they are stored: ref_logp=self.logprobs(self.reference, ids).to(self.policy_device) OR in shape_rewards logp - ref_logp.to(logp.device)
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class TokenPolicy(nn.Module):
    def __init__(self, vocab=80, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)
        self.value = nn.Linear(dim, 1)

    def forward(self, ids):
        h = self.rnn(self.embed(ids))[0]
        return self.head(h), self.value(h).squeeze(-1)


class RolloutMaker:
    def __init__(self, policy, policy_device, reference_device):
        self.policy_device, self.reference_device = policy_device, reference_device
        self.reference = copy.deepcopy(policy).to(reference_device).eval().requires_grad_(False)
        self.policy = policy.to(policy_device)

    def logprobs(self, model, ids):
        device = next(model.parameters()).device
        logits, _ = model(ids[:, :-1].to(device))
        target = ids[:, 1:].to(device)
        return F.log_softmax(logits, -1).gather(-1, target.unsqueeze(-1)).squeeze(-1)

    @torch.no_grad()
    def sample(self, n, length):
        ids = torch.ones(n, 1, dtype=torch.long, device=self.policy_device)
        for _ in range(length):
            logits, _ = self.policy(ids)
            ids = torch.cat([ids, torch.multinomial(logits[:, -1].softmax(-1), 1)], dim=1)
        return ids

    @torch.no_grad()
    def collect(self, n=8, length=10):
        ids = self.sample(n, length)
        return dict(
            ids=ids,
            logp=self.logprobs(self.policy, ids),
            ref_logp=self.logprobs(self.reference, ids),
            value=self.policy(ids[:, :-1])[1],
            score=(ids[:, 1:] % 7 == 0).float().mean(1),
        )


def shape_rewards(batch, beta):
    """Penalty per token, score of the text on the last one."""
    rewards = -beta * (batch["logp"] - batch["ref_logp"])
    rewards[:, -1] += batch["score"]
    return rewards


def advantages(rewards, value, gamma=0.99, lam=0.95):
    adv, last = torch.zeros_like(rewards), 0.0
    for t in reversed(range(rewards.shape[1])):
        ahead = value[:, t + 1] if t + 1 < rewards.shape[1] else 0.0
        last = rewards[:, t] + gamma * ahead - value[:, t] + gamma * lam * last
        adv[:, t] = last
    return adv


class PolicyTrainer:
    def __init__(self, maker, lr=1e-3, clip=0.2, beta=0.05):
        self.maker, self.clip, self.beta = maker, clip, beta
        self.opt = torch.optim.Adam(maker.policy.parameters(), lr=lr)

    def step(self):
        batch = self.maker.collect()
        adv = advantages(shape_rewards(batch, self.beta), batch["value"])
        returns = adv + batch["value"]
        for _ in range(2):
            logp = self.maker.logprobs(self.maker.policy, batch["ids"])
            ratio = (logp - batch["logp"]).exp()
            gain = torch.minimum(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv)
            value = self.maker.policy(batch["ids"][:, :-1])[1]
            loss = -gain.mean() + 0.5 * (value - returns).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return batch["score"].mean().item(), loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = PolicyTrainer(RolloutMaker(TokenPolicy(), "cuda:0", "cuda:1"))
    for i in range(2):
        print(i, "score %.3f loss %.3f" % trainer.step())
