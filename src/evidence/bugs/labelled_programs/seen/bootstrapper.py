# cause: generator-or-default-device
# guilty: gen (generator)
import torch

DEVICE = "cuda:0"


def resample(values, rounds, gen):
    n = values.numel()
    means = []
    for _ in range(rounds):
        idx = torch.randint(0, n, (n,), generator=gen, device=values.device)
        means.append(values[idx].mean())
    return torch.stack(means)


def interval(values, level=0.9, rounds=50, seed=11):
    gen = torch.Generator()
    gen.manual_seed(seed)
    means = resample(values, rounds, gen)
    q = torch.tensor([(1 - level) / 2, 1 - (1 - level) / 2], device=values.device)
    return torch.quantile(means, q)


if __name__ == "__main__":
    torch.manual_seed(0)
    returns = torch.randn(200, device=DEVICE) * 0.02 + 0.001
    lo, hi = interval(returns).tolist()
    print(f"mean in [{lo:.4f}, {hi:.4f}]")
