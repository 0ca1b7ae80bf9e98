import torch
from monai.metrics import compute_dice, compute_hausdorff_distance

device = torch.device("cuda:0")
truth = torch.zeros(2, 3, 12, 12, device=device)
truth[:, 1, 2:7, 3:8] = 1
truth[:, 2, 7:11, 1:6] = 1
predicted = truth.roll(1, dims=2)
dice = compute_dice(predicted, truth, include_background=False)
distance = compute_hausdorff_distance(predicted, truth, include_background=False)
score = dice - 0.1 * distance
print(score)
print("SCENARIO OK")
