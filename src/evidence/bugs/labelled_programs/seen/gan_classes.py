# cause: input-not-on-embedding-device
# guilty: labels
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Maker(nn.Module):
    def __init__(self, classes=5, dim=8, pixels=36):
        super().__init__()
        self.tag = nn.Embedding(classes, dim)
        self.net = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, pixels), nn.Tanh())

    def forward(self, z, labels):
        tag = self.tag(labels)
        return self.net(torch.cat([z, tag], dim=1))


dev = torch.device("cuda:1")
maker = Maker().to(dev)
critic = nn.Sequential(nn.Linear(36, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(dev)
opt_m = torch.optim.Adam(maker.parameters(), lr=2e-4)
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-4)
bce = nn.BCEWithLogitsLoss()

data = TensorDataset(torch.rand(16, 36), torch.arange(16) % 5)
for real, labels in DataLoader(data, batch_size=8):
    real = real.to(dev)
    z = torch.randn(real.size(0), 8, device=dev)
    fake = maker(z, labels)

    on_real, on_fake = critic(real), critic(fake.detach())
    c_loss = bce(on_real, torch.ones_like(on_real)) + bce(on_fake, torch.zeros_like(on_fake))
    opt_c.zero_grad()
    c_loss.backward()
    opt_c.step()

    judged = critic(fake)
    m_loss = bce(judged, torch.ones_like(judged))
    opt_m.zero_grad()
    m_loss.backward()
    opt_m.step()
    print(c_loss.item(), m_loss.item())
