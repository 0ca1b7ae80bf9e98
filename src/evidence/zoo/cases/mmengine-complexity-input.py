import torch
from mmengine.analysis import get_model_complexity_info

network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                              torch.nn.Flatten(), torch.nn.Linear(8, 4)).to("cuda:1")
report = get_model_complexity_info(network, input_shape=(3, 16, 16), show_table=False, show_arch=False)
print(report["params_str"], report["flops_str"])
print("SCENARIO OK")
