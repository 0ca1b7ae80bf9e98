# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: self.sqrt_alpha_cum_prod (t)
# after: explainingai-code/DDPM-Pytorch#5
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")

class LinearNoiseScheduler:
    def __init__(self, num_timesteps, beta_start, beta_end):
        self.num_timesteps = num_timesteps
        self.betas = torch.linspace(beta_start, beta_end, num_timesteps)
        self.alphas = 1.0 - self.betas
        self.alpha_cum_prod = torch.cumprod(self.alphas, dim=0)
        self.sqrt_alpha_cum_prod = torch.sqrt(self.alpha_cum_prod)
        self.sqrt_one_minus_alpha_cum_prod = torch.sqrt(1 - self.alpha_cum_prod)
    def add_noise(self, original, noise, t):
        batch_size = original.shape[0]
        scale = self.sqrt_alpha_cum_prod[t].reshape(batch_size)
        sigma = self.sqrt_one_minus_alpha_cum_prod[t].reshape(batch_size)
        for _ in range(original.ndim - 1):
            scale = scale.unsqueeze(-1)
            sigma = sigma.unsqueeze(-1)
        return scale * original + sigma * noise

class TinyUnet(nn.Module):
    def __init__(self, channels=8, t_dim=16):
        super().__init__()
        self.t_dim = t_dim
        self.t_proj = nn.Linear(t_dim, channels)
        self.conv_in = nn.Conv2d(1, channels, 3, padding=1)
        self.conv_out = nn.Conv2d(channels, 1, 3, padding=1)
    def forward(self, x, t):
        freq = 10 ** (torch.arange(self.t_dim // 2, device=x.device) / self.t_dim)
        emb = t[:, None].float() / freq[None]
        emb = self.t_proj(torch.cat([emb.sin(), emb.cos()], dim=-1))
        return self.conv_out(torch.relu(self.conv_in(x) + emb[:, :, None, None]))

class RandomDigits(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return torch.rand(1, 14, 14) * 2 - 1

def train(config):
    scheduler = LinearNoiseScheduler(**config["diffusion_params"])
    loader = DataLoader(RandomDigits(), batch_size=4, shuffle=True)
    model = TinyUnet().to(device)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    criterion = nn.MSELoss()
    for epoch in range(config["epochs"]):
        losses = []
        for im in loader:
            optimizer.zero_grad()
            im = im.float().to(device)
            noise = torch.randn_like(im).to(device)
            t = torch.randint(0, scheduler.num_timesteps, (im.shape[0],)).to(device)
            noisy_im = scheduler.add_noise(im, noise, t)
            loss = criterion(model(noisy_im, t), noise)
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
        print(epoch, sum(losses) / len(losses))

if __name__ == "__main__":
    train({"diffusion_params": {"num_timesteps": 50, "beta_start": 1e-4, "beta_end": 0.02},
           "lr": 1e-3, "epochs": 2})
