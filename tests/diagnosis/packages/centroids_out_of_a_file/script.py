# cause: checkpoint-map-location
# guilty: self.centroids
import io

import kit
import torch
from torch import nn

file = io.BytesIO()
torch.save({"centroids": torch.randn(3, 4)}, file)
file.seek(0)
encoder = nn.Linear(6, 4).to("cuda:0")
with torch.no_grad():
    print(kit.Clusters(file).assign(encoder(torch.randn(5, 6, device="cuda:0"))))
