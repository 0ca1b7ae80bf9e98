# cause: embedding-streams-on-different-devices
# guilty: categorical
"""Feature-token transformer for churn tables; wide category tables get a card of their own."""
import torch
from torch import nn


class NumericTokens(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, dim) * 0.1)
        self.bias = nn.Parameter(torch.zeros(features, dim))

    def forward(self, x):
        return x[..., None] * self.weight + self.bias


class CategoryTokens(nn.Module):
    def __init__(self, sizes, dim):
        super().__init__()
        offsets = torch.tensor([0] + list(sizes[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.table = nn.Embedding(sum(sizes), dim)

    def forward(self, codes):
        codes = codes.to(self.offsets.device)
        return self.table(codes + self.offsets)


class FTTransformer(nn.Module):
    def __init__(self, features, sizes, dim=16):
        super().__init__()
        self.numeric = NumericTokens(features, dim)
        self.category = CategoryTokens(sizes, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 1)

    def tokens(self, x, codes):
        numeric = self.numeric(x)
        categorical = self.category(codes)
        cls = self.cls.expand(x.size(0), -1, -1)
        return torch.cat([cls, numeric, categorical], dim=1)

    def forward(self, x, codes):
        return self.out(self.encoder(self.tokens(x, codes))[:, 0]).squeeze(-1)


def build(main_device, table_device):
    model = FTTransformer(5, (1000, 40, 7)).to(main_device)
    model.category.to(table_device)
    return model


def main():
    torch.manual_seed(0)
    main_device = torch.device("cuda:0")
    model = build(main_device, torch.device("cuda:1"))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        x = torch.randn(16, 5)
        codes = torch.stack([torch.randint(0, n, (16,)) for n in (1000, 40, 7)], dim=1)
        churn = (x[:, 0] > 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(
            model(x.to(main_device), codes), churn.to(main_device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(float(loss.detach()))


if __name__ == "__main__":
    main()
