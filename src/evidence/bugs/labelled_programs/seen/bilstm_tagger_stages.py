# cause: lm-head-or-tied-weight-split
# guilty: self.final_norm
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

DEV_A, DEV_B = torch.device("cuda:0"), torch.device("cuda:1")


class StagedTagger(nn.Module):
    """Embedding and first BiLSTM on the first card, second BiLSTM and head on the other."""

    def __init__(self, vocab, tags, d=24, h=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.lower = nn.LSTM(d, h, batch_first=True, bidirectional=True)
        self.final_norm = nn.LayerNorm(2 * h)
        self.upper = nn.LSTM(2 * h, h, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * h, tags)
        for m in (self.emb, self.lower, self.final_norm):
            m.to(DEV_A)
        for m in (self.upper, self.head):
            m.to(DEV_B)

    def _run(self, rnn, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = rnn(packed)
        return pad_packed_sequence(out, batch_first=True)[0]

    def forward(self, ids, lengths):
        x = self.emb(ids)
        x = self._run(self.lower, x, lengths)
        x = self._run(self.upper, x.to(DEV_B), lengths)
        x = self.final_norm(x)
        return self.head(x)


def make_batch(n=6, vocab=80, tags=5):
    lengths = torch.randint(4, 12, (n,))
    ids = torch.zeros(n, int(lengths.max()), dtype=torch.long)
    for i, l in enumerate(lengths.tolist()):
        ids[i, :l] = torch.randint(1, vocab, (l,))
    gold = (ids % tags).masked_fill(ids == 0, -100)
    return ids, lengths, gold


def main():
    torch.manual_seed(4)
    model = StagedTagger(80, 5)
    loss_fn = nn.CrossEntropyLoss(ignore_index=-100).to(DEV_B)
    opt = torch.optim.Adam([{"params": model.emb.parameters(), "lr": 5e-3},
                            {"params": [p for n, p in model.named_parameters() if not n.startswith("emb")]}], lr=1e-3)
    for step in range(4):
        ids, lengths, gold = make_batch()
        logits = model(ids.to(DEV_A), lengths)
        loss = loss_fn(logits.flatten(0, 1), gold.flatten().to(DEV_B))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.head.parameters(), 1.0)
        opt.step()
        print(step, float(loss))


main()
