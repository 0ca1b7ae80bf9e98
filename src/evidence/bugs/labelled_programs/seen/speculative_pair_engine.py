# cause: generation-helper-on-wrong-device
# guilty: q (draft_probs, self.draft)
# line: 55
# repair: in DraftModel.propose return torch.stack(probs, 1).to(the device of the target), or in SpeculativeEngine.verify draft_probs = draft_probs.to(target_probs.device) before the gather
"""Speculative decoding, draft model on the second card."""
import torch
import torch.nn as nn


class TinyCausal(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        hidden, _ = self.rnn(self.tok(ids))
        return self.out(hidden)


class ModelHandle:
    """A model together with the card it lives on."""

    def __init__(self, model, device, temperature=1.0):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.temperature = temperature

    @torch.no_grad()
    def probs(self, ids):
        logits = self.model(ids.to(self.device)) / self.temperature
        return logits.softmax(-1)


class DraftModel(ModelHandle):
    def propose(self, ids, gamma):
        probs, home = [], ids.device
        for _ in range(gamma):
            p = self.probs(ids)[:, -1]
            probs.append(p)
            ids = torch.cat([ids, torch.multinomial(p, 1).to(home)], dim=1)
        return ids, torch.stack(probs, 1)


class SpeculativeEngine:
    def __init__(self, target, draft, gamma=3):
        self.target, self.draft, self.gamma = target, draft, gamma

    def verify(self, ids, start, draft_probs):
        target_probs = self.target.probs(ids)[:, start - 1:-1]
        tokens = ids[:, start:].unsqueeze(-1)
        p = target_probs.gather(-1, tokens).squeeze(-1)
        q = self._chosen(draft_probs, tokens)
        accept = torch.rand_like(p) < p / q.clamp_min(1e-8)
        return int(accept.long().cumprod(1).sum())

    @staticmethod
    def _chosen(probs, tokens):
        return probs.gather(-1, tokens.to(probs.device)).squeeze(-1)

    def generate(self, prompt, max_new=12):
        ids = prompt.to(self.target.device)
        while ids.size(1) < prompt.size(1) + max_new:
            start = ids.size(1)
            longer, draft_probs = self.draft.propose(ids, self.gamma)
            kept = self.verify(longer, start, draft_probs)
            ids = longer[:, :start + kept]
            last = self.target.probs(ids)[:, -1]
            ids = torch.cat([ids, torch.multinomial(last, 1)], dim=1)
        return ids


if __name__ == "__main__":
    torch.manual_seed(1)
    target = ModelHandle(TinyCausal(dim=48), "cuda:0")
    draft = DraftModel(TinyCausal(dim=16), "cuda:1")
    engine = SpeculativeEngine(target, draft)
    print(engine.generate(torch.tensor([[3, 9, 27]])).tolist())
