import torch
from zennit.attribution import Occlusion

model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 5)).to("cuda:0")
images = torch.randn(1, 3, 8, 8, device="cuda:0")
target = torch.eye(5, device="cuda:0")[[2]]
with Occlusion(model, window=(3, 4, 4), stride=(3, 4, 4)) as attributor:
    output, relevance = attributor(images, target)
print(relevance.shape)
print("SCENARIO OK")
