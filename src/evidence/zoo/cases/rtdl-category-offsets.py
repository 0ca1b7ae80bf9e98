import torch
from rtdl.modules import CategoricalFeatureTokenizer

tokenizer = CategoricalFeatureTokenizer([3, 4, 2], d_token=8, bias=True, initialization="uniform").to("cuda:0")
head = torch.nn.Linear(8, 1).to("cuda:0")
features = torch.stack([torch.randint(0, size, (5,)) for size in (3, 4, 2)], 1).to("cuda:0")
head(tokenizer(features)).mean().backward()
print(head.weight.grad.shape)
print("SCENARIO OK")
