import torch
from asteroid.models import SuDORMRFImprovedNet

model = SuDORMRFImprovedNet(
    n_src=2, bn_chan=8, num_blocks=1, upsampling_depth=3, n_filters=16, kernel_size=21, stride=10
).to("cuda:0")
with torch.no_grad():
    sources = model(torch.randn(1, 1003, device="cuda:0"))
print(sources.shape)
print("SCENARIO OK")
