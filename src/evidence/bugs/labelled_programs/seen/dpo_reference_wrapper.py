# cause: loss-or-label-on-other-device
# guilty: ref_margin (ref_logps)
# line: 46
# repair: in Reference.logps return the result on the asker's device: return sequence_logps(...).to(ids.device), before ids is moved OR in dpo_loss: ref_margin = ref_margin.to(policy_margin.device)
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class TinyLM(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


def sequence_logps(model, ids, prompt_len):
    logp = model(ids[:, :-1]).log_softmax(-1)
    token = logp.gather(-1, ids[:, 1:, None]).squeeze(-1)
    keep = torch.arange(token.size(1), device=token.device) >= prompt_len - 1
    return (token * keep).sum(-1)


class Reference:
    """Frozen copy of the policy on a card of its own."""

    def __init__(self, policy, device):
        self.model = copy.deepcopy(policy).to(device).eval().requires_grad_(False)
        self.device = device

    @torch.no_grad()
    def logps(self, ids, prompt_len):
        ids = ids.to(self.device)
        return sequence_logps(self.model, ids, prompt_len)


def dpo_loss(policy_logps, ref_logps, beta=0.1, label_smoothing=0.0):
    policy_margin = policy_logps[0] - policy_logps[1]
    ref_margin = ref_logps[0] - ref_logps[1]
    logits = policy_margin - ref_margin
    loss = -F.logsigmoid(beta * logits) * (1 - label_smoothing)
    loss = loss - F.logsigmoid(-beta * logits) * label_smoothing
    return loss.mean(), (logits > 0).float().mean()


def preference_batches(n, size=4, prompt=5, answer=7):
    g = torch.Generator().manual_seed(2)
    for _ in range(n):
        head = torch.randint(0, 50, (size, prompt), generator=g)
        good = torch.randint(0, 50, (size, answer), generator=g)
        bad = torch.randint(0, 50, (size, answer), generator=g)
        yield torch.cat([head, good], 1), torch.cat([head, bad], 1), prompt


def main():
    torch.manual_seed(0)
    policy = TinyLM().to("cuda:0")
    reference = Reference(policy, "cuda:1")
    opt = torch.optim.AdamW(policy.parameters(), lr=5e-4)
    sched = torch.optim.lr_scheduler.LinearLR(opt, total_iters=3)
    for step, (chosen, rejected, prompt_len) in enumerate(preference_batches(4)):
        chosen, rejected = chosen.to("cuda:0"), rejected.to("cuda:0")
        policy_logps = [sequence_logps(policy, x, prompt_len) for x in (chosen, rejected)]
        ref_logps = [reference.logps(x, prompt_len) for x in (chosen, rejected)]
        loss, accuracy = dpo_loss(policy_logps, ref_logps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        print(step, loss.item(), accuracy.item())


main()
