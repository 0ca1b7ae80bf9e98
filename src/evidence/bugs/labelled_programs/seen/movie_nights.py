# cause: embedding-streams-on-different-devices
# guilty: film
"""Rating model whose two big lookup tables do not fit on one card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Ratings(nn.Module):
    def __init__(self, people=500, films=900, tags=30, width=16):
        super().__init__()
        self.person = nn.Embedding(people, width).to("cuda:0")
        self.film = nn.Embedding(films, width).to("cuda:1")
        self.tag = nn.EmbeddingBag(tags, width, mode="mean").to("cuda:1")
        self.mix = nn.Linear(2 * width, width).to("cuda:1")
        self.top = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1)).to("cuda:0")

    def film_side(self, film, tags):
        film = self.film(film.to("cuda:1"))
        tags = self.tag(tags.to("cuda:1"))
        return torch.tanh(self.mix(torch.cat([film, tags], dim=1)))

    def person_side(self, person):
        return F.dropout(self.person(person.to("cuda:0")), 0.1, self.training)

    def forward(self, person, film, tags):
        person = self.person_side(person)
        film = self.film_side(film, tags)
        joint = torch.cat([person, film], dim=1)
        return self.top(joint).squeeze(1)


def log_lines(n):
    return {
        "person": torch.randint(500, (n,)),
        "film": torch.randint(900, (n,)),
        "tags": torch.randint(30, (n, 4)),
        "stars": torch.randint(1, 6, (n,)).float(),
    }


def train(model, steps=4):
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step in range(steps):
        lines = log_lines(64)
        stars = lines.pop("stars")
        guess = model(**lines)
        loss = F.mse_loss(guess, stars.to(guess.device) / 5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


torch.manual_seed(40)
train(Ratings())
