import pyro
import torch
from pyro.contrib.cevae import CEVAE

torch.set_default_device("cuda:0")
pyro.clear_param_store()
features = torch.randn(20, 3)
treatment = torch.bernoulli(torch.full((20,), 0.5))
outcome = torch.bernoulli(torch.full((20,), 0.5))
model = CEVAE(feature_dim=3, latent_dim=2, hidden_dim=4, num_layers=2, num_samples=2)
losses = model.fit(features, treatment, outcome, num_epochs=1, batch_size=10, log_every=0)
print(losses)
print("SCENARIO OK")
