from torch import nn


class Low(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def inject(model):
    for name, part in list(model.named_children()):
        if isinstance(part, nn.Linear):
            setattr(model, name, Low(part))
    return model
