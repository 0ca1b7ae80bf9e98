# cause: generation-helper-on-wrong-device|tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: seen (history or ids)
"""Chat loop around a small byte model: penalises what was said already in this conversation."""
import torch
from torch import nn


class ByteModel(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(256, d)
        self.conv = nn.Conv1d(d, d, 5)
        self.out = nn.Linear(d, 256)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        return self.out(torch.relu(self.conv(nn.functional.pad(x, (4, 0)))).transpose(1, 2))


class RepetitionPenalty:
    def __init__(self, penalty, window):
        self.penalty, self.window = penalty, window
        self.history = []

    def note(self, token):
        self.history.append(int(token))

    def __call__(self, logits):
        if not self.history:
            return logits
        seen = torch.tensor(sorted(set(self.history[-self.window:]))).unsqueeze(0)
        picked = logits.gather(1, seen)
        picked = torch.where(picked < 0, picked * self.penalty, picked / self.penalty)
        return logits.scatter(1, seen, picked)


class Chat:
    def __init__(self, model, device):
        self.model, self.device = model.to(device).eval(), device
        self.penalty = RepetitionPenalty(1.3, 32)
        self.ids = torch.empty(1, 0, dtype=torch.long, device=device)

    @torch.no_grad()
    def ask(self, text, n=4):
        typed = torch.tensor([list(text.encode())], device=self.device)
        self.ids = torch.cat([self.ids, typed], 1)
        answer = []
        for _ in range(n):
            logits = self.penalty(self.model(self.ids)[:, -1])
            nxt = logits.argmax(-1, keepdim=True)
            self.penalty.note(nxt)
            answer.append(nxt.item())
            self.ids = torch.cat([self.ids, nxt], 1)
        return bytes(answer)


chat = Chat(ByteModel(), "cuda:1")
print(chat.ask("hello"), chat.ask("again"))
