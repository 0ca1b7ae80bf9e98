import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam

data = torch.randn(12, device="cuda:0")


def model(data):
    with pyro.plate("data", 12, subsample_size=4) as index:
        loc = pyro.sample("loc", dist.Normal(data.new_zeros(()), data.new_ones(())))
        pyro.sample("obs", dist.Normal(loc, data.new_ones(())), obs=data[index])


def guide(data):
    with pyro.plate("data", 12, subsample_size=4):
        loc = pyro.param("loc_q", lambda: data.new_zeros(12), event_dim=0)
        pyro.sample("loc", dist.Normal(loc, data.new_ones(())))


svi = SVI(model, guide, Adam({"lr": 0.01}), Trace_ELBO())
print(svi.step(data))
print("SCENARIO OK")
