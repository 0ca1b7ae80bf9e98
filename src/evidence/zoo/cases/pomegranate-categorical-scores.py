import torch
from pomegranate.distributions import Categorical

device = torch.device("cuda:0")
letters = Categorical([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]).to(device)
pairs = torch.tensor([[0, 1], [3, 2], [2, 0]], device=device)
print(letters.log_probability(pairs))
print("SCENARIO OK")
