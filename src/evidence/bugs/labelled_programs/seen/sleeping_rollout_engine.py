# cause: weights-moved-away-by-manager
# guilty: self.embed (self.embed.weight, ids, self.model)
# line: 19
# repair: in Learner.iterate call engine.wake() before engine.logprobs(...) OR move the engine.sleep() below the old log-probabilities OR let Engine.logprobs wake the model itself
"""Policy-gradient fine-tuning with an inference copy that sleeps in host memory between phases."""
import copy
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, vocab=40, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head(self.rnn(x)[0])


def token_logprobs(model, ids):
    logp = model(ids[:, :-1]).log_softmax(-1)
    return logp.gather(2, ids[:, 1:, None]).squeeze(-1)


class Engine:
    def __init__(self, model, card):
        self.model, self.card = model.to(card).eval(), torch.device(card)
        self.awake = True

    def sleep(self):
        self.model.to("cpu")
        self.awake = False

    def wake(self, weights=None):
        self.model.to(self.card)
        if weights is not None:
            self.model.load_state_dict(weights)
        self.awake = True

    @torch.no_grad()
    def rollout(self, prompt, steps):
        ids = prompt.to(self.card)
        for _ in range(steps):
            probs = self.model(ids)[:, -1].softmax(-1)
            ids = torch.cat([ids, torch.multinomial(probs, 1)], dim=1)
        return ids

    @torch.no_grad()
    def logprobs(self, ids):
        return token_logprobs(self.model, ids.to(self.card))


class Learner:
    def __init__(self, card="cuda:0", engine_card="cuda:1"):
        self.card = torch.device(card)
        self.policy = Policy().to(self.card)
        self.engine = Engine(copy.deepcopy(self.policy), engine_card)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=1e-3)

    def iterate(self, prompt):
        self.engine.wake(self.policy.state_dict())
        ids = self.engine.rollout(prompt, 6)
        self.engine.sleep()
        old = self.engine.logprobs(ids).to(self.card)
        ids = ids.to(self.card)
        reward = (ids[:, 1:] % 2 == 0).float()
        ratio = (token_logprobs(self.policy, ids) - old).exp()
        loss = -(ratio * (reward - reward.mean())).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return reward.mean().item()


if __name__ == "__main__":
    learner = Learner()
    for i in range(3):
        print(i, learner.iterate(torch.randint(0, 40, (8, 3))))
