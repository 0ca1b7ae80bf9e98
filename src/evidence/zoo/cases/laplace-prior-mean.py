import torch
from laplace import Laplace

device = torch.device("cuda:0")
network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(device)
data = torch.utils.data.TensorDataset(torch.randn(12, 3), torch.randn(12, 1))
size = sum(parameter.numel() for parameter in network.parameters())
laplace = Laplace(network, "regression", subset_of_weights="all", hessian_structure="diag",
                  prior_mean=torch.full((size,), 0.1))
laplace.fit(torch.utils.data.DataLoader(data, batch_size=6))
print(laplace.log_marginal_likelihood())
print("SCENARIO OK")
