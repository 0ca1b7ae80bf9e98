import numpy as np
import torch
from pytorch_grad_cam import GradCAM
from pytorch_grad_cam.utils.model_targets import SemanticSegmentationTarget

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 2, 1)
).to("cuda:1")
mask = np.zeros((8, 8), dtype=np.float32)
mask[2:6, 2:6] = 1
images = torch.randn(1, 3, 8, 8, device="cuda:1")
with GradCAM(model=model, target_layers=[model[0]]) as cam:
    heat = cam(input_tensor=images, targets=[SemanticSegmentationTarget(1, mask)])
print(heat.shape)
print("SCENARIO OK")
