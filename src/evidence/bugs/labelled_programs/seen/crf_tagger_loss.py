# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: mask (tags or labels)
# after: kmkurn/pytorch-crf#101
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.num_tags = num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.end_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))
    def forward(self, emissions, tags, mask=None):
        if mask is None:
            mask = torch.ones_like(tags, dtype=torch.uint8)
        numerator = self._compute_score(emissions, tags, mask)
        denominator = self._compute_normalizer(emissions, mask)
        return (numerator - denominator).mean()
    def _compute_score(self, emissions, tags, mask):
        seq_length, batch_size = tags.shape
        mask = mask.float()
        rows = torch.arange(batch_size)
        score = self.start_transitions[tags[0]] + emissions[0, rows, tags[0]]
        for i in range(1, seq_length):
            score = score + self.transitions[tags[i - 1], tags[i]] * mask[i]
            score = score + emissions[i, rows, tags[i]] * mask[i]
        last = tags[mask.long().sum(dim=0) - 1, rows]
        return score + self.end_transitions[last]
    def _compute_normalizer(self, emissions, mask):
        score = self.start_transitions + emissions[0]
        for i in range(1, emissions.shape[0]):
            nxt = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            score = torch.where(mask[i].unsqueeze(1).bool(), nxt.logsumexp(dim=1), score)
        return (score + self.end_transitions).logsumexp(dim=1)
class BiLSTMTagger(nn.Module):
    def __init__(self, vocab=100, num_tags=5, d=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=0)
        self.rnn = nn.LSTM(d, d // 2, bidirectional=True)
        self.emit = nn.Linear(d, num_tags)
        self.crf = CRF(num_tags)
    def loss(self, words, tags):
        return -self.crf(self.emit(self.rnn(self.embed(words))[0]), tags)
def collate(batch):
    words = pad_sequence([w for w, _ in batch])
    tags = pad_sequence([t for _, t in batch])
    return words, tags
class Sentences(torch.utils.data.Dataset):
    def __init__(self, n):
        self.rows = [(torch.randint(1, 100, (k,)), torch.randint(0, 5, (k,))) for k in [7, 9, 8, 9][:n]]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return self.rows[index]

def train(model, loader, device):
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for words, tags in loader:
        words = words.to(device)
        loss = model.loss(words, tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())

if __name__ == "__main__":
    train(BiLSTMTagger(), torch.utils.data.DataLoader(Sentences(4), batch_size=2, collate_fn=collate),
          torch.device("cuda"))
