# cause: tensor-created-on-wrong-device
# guilty: self.loc (self.normal or self.normal.loc)
# after: lucidrains/mixture-of-experts#5
import torch
from torch import nn
from torch.distributions.normal import Normal

class Expert(nn.Module):
    def __init__(self, d_in, d_out, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, hidden), nn.ReLU(), nn.Linear(hidden, d_out))

    def forward(self, x):
        return self.net(x)

class NoisyTopKMoE(nn.Module):
    def __init__(self, d_in, d_out, num_experts=6, k=2, hidden=32, noisy_gating=True):
        super().__init__()
        self.num_experts, self.k, self.noisy_gating = num_experts, k, noisy_gating
        self.experts = nn.ModuleList([Expert(d_in, d_out, hidden) for _ in range(num_experts)])
        self.w_gate = nn.Parameter(torch.randn(d_in, num_experts) * 0.1)
        self.w_noise = nn.Parameter(torch.zeros(d_in, num_experts))
        self.softplus = nn.Softplus()
        self.normal = Normal(torch.tensor([0.0]), torch.tensor([1.0]))

    def cv_squared(self, x):
        return x.float().var() / (x.float().mean() ** 2 + 1e-10)

    def _prob_in_top_k(self, clean_values, noisy_values, noise_stddev, noisy_top_values):
        threshold_if_in = noisy_top_values[:, self.k].unsqueeze(1)
        threshold_if_out = noisy_top_values[:, self.k - 1].unsqueeze(1)
        is_in = torch.gt(noisy_values, threshold_if_in)
        prob_if_in = self.normal.cdf((clean_values - threshold_if_in) / noise_stddev)
        prob_if_out = self.normal.cdf((clean_values - threshold_if_out) / noise_stddev)
        return torch.where(is_in, prob_if_in, prob_if_out)

    def noisy_top_k_gating(self, x, train):
        clean_logits = x @ self.w_gate
        logits, noise_stddev = clean_logits, None
        if self.noisy_gating and train:
            noise_stddev = self.softplus(x @ self.w_noise) + 1e-2
            logits = clean_logits + torch.randn_like(clean_logits) * noise_stddev
        top_logits, top_indices = logits.softmax(1).topk(self.k + 1, dim=1)
        top_k = top_logits[:, :self.k] / top_logits[:, :self.k].sum(1, keepdim=True)
        gates = torch.zeros_like(logits).scatter(1, top_indices[:, :self.k], top_k)
        if noise_stddev is not None:
            load = self._prob_in_top_k(clean_logits, logits, noise_stddev, logits.topk(self.k + 1, dim=1).values)
            return gates, load.sum(0)
        return gates, (gates > 0).sum(0)

    def forward(self, x, loss_coef=1e-2):
        gates, load = self.noisy_top_k_gating(x, self.training)
        loss = (self.cv_squared(gates.sum(0)) + self.cv_squared(load)) * loss_coef
        y = torch.stack([e(x) for e in self.experts], dim=1)
        return (gates.unsqueeze(-1) * y).sum(1), loss

if __name__ == "__main__":
    device = torch.device("cuda")
    model = NoisyTopKMoE(10, 3).to(device)
    optim = torch.optim.Adam(model.parameters())
    for training in (False, True):
        model.train(training)
        x, y = torch.rand(20, 10, device=device), torch.randint(0, 3, (20,), device=device)
        y_hat, aux = model(x)
        total = nn.functional.cross_entropy(y_hat, y) + aux
        print(training, total.item())
    total.backward()
    optim.step()
