import numpy as np
import torch
from tianshou.utils.net.common import Net

network = Net(state_shape=(4,), action_shape=2, hidden_sizes=[16]).to("cuda:0")
observations = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
with torch.no_grad():
    values, _ = network(observations)
print(values.argmax(1))
print("SCENARIO OK")
