# cause: loss-or-label-on-other-device
# guilty: ref_logratios (reference_chosen_logps)
# after: huggingface/trl#1190
import torch
import torch.nn.functional as F
from torch import nn

class TinyPolicy(nn.Module):
    def __init__(self, vocab=40, dim=32):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(vocab, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, vocab)
    @property
    def device(self):
        return self.embed.weight.device
    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])

class PairCollator:
    def __call__(self, rows):
        return {k: torch.stack([r[k] for r in rows]) for k in rows[0]}

class DPOTrainer:
    def __init__(self, model, ref_model, beta=0.1, label_smoothing=0.0, lr=1e-3):
        self.model, self.ref_model = model, ref_model.eval().requires_grad_(False)
        self.beta, self.label_smoothing = beta, label_smoothing
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=lr)
        self.stats = []
    @staticmethod
    def batch_logps(logits, labels):
        logps = logits[:, :-1].log_softmax(-1)
        return logps.gather(2, labels[:, 1:, None]).squeeze(2).sum(-1)
    def concatenated_forward(self, model, batch):
        ids = torch.cat([batch["chosen"], batch["rejected"]]).to(model.device)
        logps = self.batch_logps(model(ids), ids)
        n = len(batch["chosen"])
        return logps[:n], logps[n:]
    def dpo_loss(self, policy_chosen_logps, policy_rejected_logps, reference_chosen_logps, reference_rejected_logps):
        pi_logratios = policy_chosen_logps - policy_rejected_logps
        ref_logratios = reference_chosen_logps - reference_rejected_logps
        logits = pi_logratios - ref_logratios
        losses = (
            -F.logsigmoid(self.beta * logits) * (1 - self.label_smoothing)
            - F.logsigmoid(-self.beta * logits) * self.label_smoothing
        )
        chosen_rewards = self.beta * (policy_chosen_logps - reference_chosen_logps).detach()
        rejected_rewards = self.beta * (policy_rejected_logps - reference_rejected_logps).detach()
        return losses, chosen_rewards, rejected_rewards
    def get_batch_loss_metrics(self, batch):
        policy = self.concatenated_forward(self.model, batch)
        with torch.no_grad():
            reference = self.concatenated_forward(self.ref_model, batch)
        losses, good, bad = self.dpo_loss(*policy, *reference)
        self.stats.append((good > bad).float().mean().item())
        return losses.mean()
    def train(self, batches):
        for batch in batches:
            loss = self.get_batch_loss_metrics(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return self.stats

if __name__ == "__main__":
    policy, reference = TinyPolicy().to("cuda:0"), TinyPolicy().to("cuda:1")
    reference.load_state_dict(policy.state_dict())
    row = lambda: {"chosen": torch.randint(0, 40, (8,)), "rejected": torch.randint(0, 40, (8,))}
    batches = [PairCollator()([row() for _ in range(4)]) for _ in range(3)]
    print(DPOTrainer(policy, reference).train(batches))
