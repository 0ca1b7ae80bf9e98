# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.attention_mask
# after: unit8co/darts#3052
import torch
from torch import nn


class Temporal(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.attention_mask, self.length = None, -1

    def forward(self, x):
        if self.length != x.shape[1]:
            self.length = x.shape[1]
            self.attention_mask = torch.ones(self.length, self.length, device=x.device).triu(1).bool()
        h, _ = self.rnn(x)
        blocked = torch.zeros(self.length, self.length, device=x.device)
        blocked = blocked.masked_fill(self.attention_mask, float("-inf"))
        return self.attention(h, h, h, attn_mask=blocked)[0]


model = Temporal()
past = torch.randn(3, 7, 8)
model(past)
model.to("cuda:1")
with torch.no_grad():
    print(model(past.to("cuda:1"))[:, -1])
