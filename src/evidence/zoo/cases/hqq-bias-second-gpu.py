import torch
from hqq.core.quantize import HQQLinear, hqq_base_quant_config

config = hqq_base_quant_config(nbits=4, group_size=64)
layers = [HQQLinear(torch.nn.Linear(64, 64), config, True, torch.float32, 1) for _ in range(2)]
network = torch.nn.Sequential(*layers)
print(network(torch.randn(3, 64, device="cuda:1")).shape)
print("SCENARIO OK")
