# cause: hard-coded-device|input-not-on-embedding-device
# guilty: tokens (self.embed.weight)
# line: 21
# repair: in load_judge do not call torch.cuda.set_device(1), build with .to("cuda:1") OR wrap it in with torch.cuda.device(1) OR in PolicyTrainer.rollout send the prompts to the policy's own device, prompts.to(self.policy.embed.weight.device)
"""A small policy is tuned against a judge model that lives on the other card."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 40


class Policy(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, tokens):
        h, _ = self.rnn(self.embed(tokens))
        return self.head(h)


class Judge(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCAB, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, tokens):
        return self.out(self.bag(tokens))[:, 0]


def load_policy():
    return Policy().cuda()


def load_judge(index=1):
    torch.cuda.set_device(index)
    judge = Judge().cuda()
    judge.requires_grad_(False)
    return judge.eval()


class PolicyTrainer:
    def __init__(self, policy, judge, horizon=5, lr=1e-2):
        self.policy, self.judge, self.horizon = policy, judge, horizon
        self.judge_device = judge.out.weight.device
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
        self.baseline = 0.0

    def rollout(self, prompts):
        tokens = prompts.cuda()
        log_probs = []
        for _ in range(self.horizon):
            logits = self.policy(tokens)[:, -1]
            dist = torch.distributions.Categorical(logits=logits)
            choice = dist.sample()
            log_probs.append(dist.log_prob(choice))
            tokens = torch.cat([tokens, choice[:, None]], dim=1)
        return tokens, torch.stack(log_probs, dim=1).sum(1)

    def step(self, prompts):
        tokens, log_prob = self.rollout(prompts)
        with torch.no_grad():
            reward = self.judge(tokens.to(self.judge_device)).to(log_prob.device)
        self.baseline = 0.9 * self.baseline + 0.1 * reward.mean().item()
        loss = -((reward - self.baseline) * log_prob).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return reward.mean().item()


def prompt_batches(count, size=8, length=4):
    gen = torch.Generator().manual_seed(11)
    for _ in range(count):
        yield torch.randint(0, VOCAB, (size, length), generator=gen)


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = PolicyTrainer(load_policy(), load_judge())
    for step, prompts in enumerate(prompt_batches(4)):
        print(step, trainer.step(prompts))
