# cause: loss-or-label-on-other-device|cache-or-beam-state-on-wrong-device
# guilty: ref_logp (reference, self.reference(...))
# line: 54
# repair: in ReferenceCache.__call__ bring the value home when it is first computed: store `value.to(self.out_device)` in self.store (as the refresh path does) OR use ref_logp.to(logp.device) in the loss
"""Group-relative policy optimisation with the frozen reference on the second card."""
import copy
import torch
import torch.nn as nn


class BytePolicy(nn.Module):
    def __init__(self, vocab=40, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def token_logp(model, ids):
    logp = model(ids[:, :-1]).log_softmax(-1)
    return logp.gather(-1, ids[:, 1:, None]).squeeze(-1)


class ReferenceCache:
    """Log-probabilities of the reference, kept by the number of the prompt."""

    def __init__(self, model, device, out_device):
        self.model = copy.deepcopy(model).to(device).eval().requires_grad_(False)
        self.device, self.out_device = device, out_device
        self.store = {}

    def refresh(self, key, ids):
        self.store[key] = token_logp(self.model, ids.to(self.device)).to(self.out_device)

    @torch.no_grad()
    def __call__(self, key, ids):
        if key not in self.store:
            self.store[key] = token_logp(self.model, ids.to(self.device))
        return self.store[key]


class GroupTrainer:
    def __init__(self, policy, reference, beta=0.04):
        self.policy, self.reference, self.beta = policy, reference, beta
        self.opt = torch.optim.Adam(policy.parameters(), lr=1e-3)

    def step(self, key, ids, rewards):
        logp = token_logp(self.policy, ids)
        adv = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        ref_logp = self.reference(key, ids)
        delta = ref_logp - logp
        kl = delta.exp() - delta - 1
        ratio = (logp - logp.detach()).exp()
        loss = -(ratio * adv[:, None] - self.beta * kl).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    policy = BytePolicy().to("cuda:0")
    trainer = GroupTrainer(policy, ReferenceCache(policy, "cuda:1", "cuda:0"))
    for prompt in range(3):
        group = torch.randint(0, 40, (6, 11), device="cuda:0")
        print(prompt, trainer.step(prompt, group, torch.rand(6, device="cuda:0")))
