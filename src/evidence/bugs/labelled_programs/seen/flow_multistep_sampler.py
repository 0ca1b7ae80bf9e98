# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: rks (rk or self.sigmas)
# after: huggingface/diffusers#13450, huggingface/diffusers#13489
import torch
from torch import nn

class MultistepScheduler:
    order = 1

    def __init__(self, num_train_timesteps=1000, solver_order=2, shift=3.0):
        self.num_train_timesteps, self.solver_order, self.shift = num_train_timesteps, solver_order, shift

    def set_timesteps(self, n, device=None):
        sigmas = torch.linspace(1.0, 1.0 / n, n)
        sigmas = self.shift * sigmas / (1 + (self.shift - 1) * sigmas)
        self.timesteps = (sigmas * self.num_train_timesteps).to(device=device)
        self.sigmas = torch.cat([sigmas, sigmas.new_full((1,), 1e-3)])
        self.model_outputs = [None] * self.solver_order
        self.lower_order_nums = 0
        self.step_index = 0
        self.sigmas = self.sigmas.to("cpu")  # to avoid too much CPU/GPU communication

    def _sigma_to_alpha(self, sigma):
        return 1 - sigma + 1e-4, sigma

    def _lambda(self, i):
        alpha, sigma = self._sigma_to_alpha(self.sigmas[i])
        return torch.log(alpha) - torch.log(sigma)

    def multistep_update(self, sample, order):
        device, m0 = sample.device, self.model_outputs[-1]
        alpha_t, sigma_t = self._sigma_to_alpha(self.sigmas[self.step_index + 1])
        _, sigma_s0 = self._sigma_to_alpha(self.sigmas[self.step_index])
        h = self._lambda(self.step_index + 1) - self._lambda(self.step_index)
        rks, d1s = [], []
        for i in range(1, order):
            mi = self.model_outputs[-(i + 1)]
            rk = (self._lambda(self.step_index - i) - self._lambda(self.step_index)) / h
            rks.append(rk)
            d1s.append((mi - m0) / rk)
        rks.append(torch.ones((), device=device))
        rks = torch.stack(rks)
        x = sigma_t / sigma_s0 * sample - alpha_t * torch.expm1(-h) * m0
        return x - sum(0.5 * alpha_t * r * d for r, d in zip(rks, d1s)) * 0.1

    def step(self, model_output, sample):
        self.model_outputs = self.model_outputs[1:] + [sample - self.sigmas[self.step_index] * model_output]
        self.lower_order_nums = min(self.lower_order_nums + 1, self.solver_order)
        sample = self.multistep_update(sample, self.lower_order_nums)
        self.step_index += 1
        return sample

class VideoPipeline:
    def __init__(self, device):
        self.device = device
        self.transformer = nn.Sequential(nn.Linear(17, 32), nn.GELU(), nn.Linear(32, 16)).to(device)
        self.scheduler = MultistepScheduler()

    @torch.no_grad()
    def __call__(self, frames, steps):
        latents = torch.randn(frames, 16, device=self.device)
        self.scheduler.set_timesteps(steps, device=self.device)
        for t in self.scheduler.timesteps:
            cond = (t / 1000).expand(frames, 1)
            latents = self.scheduler.step(self.transformer(torch.cat([latents, cond], -1)), latents)
        return latents

if __name__ == "__main__":
    print(VideoPipeline(torch.device("cuda"))(frames=5, steps=6).std())
