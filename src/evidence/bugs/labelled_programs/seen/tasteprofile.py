# cause: block-split-across-devices|embedding-streams-on-different-devices
# guilty: qi (pu)
import torch
from torch import nn


class Towers(nn.Module):
    def __init__(self, users, items, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.user_bias = nn.Embedding(users, 1)
        self.item_bias = nn.Embedding(items, 1)

    def place(self, first, second):
        self.user.to(first)
        self.user_bias.to(first)
        self.item.to(second)
        self.item_bias.to(second)
        return self

    def forward(self, u, i):
        pu = self.user(u.to(self.user.weight.device))
        qi = self.item(i.to(self.item.weight.device))
        dot = (pu * qi).sum(-1)
        bu = self.user_bias(u.to(self.user_bias.weight.device)).squeeze(-1)
        bi = self.item_bias(i.to(self.item_bias.weight.device)).squeeze(-1)
        return dot + bu + bi.to(bu.device)


torch.manual_seed(0)
net = Towers(30, 50).place("cuda:0", "cuda:1")
opt = torch.optim.Adagrad(net.parameters(), 0.1)
u = torch.randint(0, 30, (64,))
i = torch.randint(0, 50, (64,))
rating = torch.rand(64) * 4 + 1
for epoch in range(3):
    guess = net(u, i)
    loss = nn.functional.mse_loss(guess, rating.to(guess.device))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(round(loss.item(), 3))
