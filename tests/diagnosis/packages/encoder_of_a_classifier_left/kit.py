import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layer = nn.Linear(width, classes)
        self.to("cuda" if torch.cuda.is_available() else "cpu")

    def forward(self, features):
        return self.layer(features["pooled"])


class Classifier:
    def __init__(self, encoder, width, classes):
        self.encoder = encoder
        self.head = Head(width, classes)

    def fit(self, rows, labels, steps=1):
        device = next(self.encoder.parameters()).device
        optimizer = torch.optim.SGD([*self.encoder.parameters(), *self.head.parameters()], lr=0.1)
        for _ in range(steps):
            features = {"pooled": self.encoder(rows.to(device))}
            scores = self.head(features)
            loss = nn.functional.cross_entropy(scores, labels.to(scores.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
