import torch
from monai.data.box_utils import non_max_suppression

boxes = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [8, 8, 12, 12], [0, 0, 4, 4.5]], device="cuda:0")
scores = torch.tensor([0.9, 0.8, 0.7, 0.6], device="cuda:0")
print(non_max_suppression(boxes, scores, nms_thresh=0.3))
print("SCENARIO OK")
