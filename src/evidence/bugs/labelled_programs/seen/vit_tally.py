# cause: metric-state-device
# guilty: self.grid
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(18)
N = 4


class Tally:
    """Counts of (true, guessed) pairs over an epoch."""

    def __init__(self, n):
        self.n = n
        self.grid = torch.zeros(n, n, dtype=torch.long)

    def update(self, guess, truth):
        fresh = torch.bincount(truth * self.n + guess, minlength=self.n ** 2)
        self.grid += fresh.view(self.n, self.n)

    def compute(self):
        hit = self.grid.diag().float()
        recall = hit / self.grid.sum(1).clamp(min=1)
        return {"accuracy": (hit.sum() / self.grid.sum()).item(), "recall": recall.tolist()}


cfg = ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                image_size=16, patch_size=8, num_labels=N)
device = torch.device("cuda:0")
model = ViTForImageClassification(cfg).to(device).eval()
loader = DataLoader(TensorDataset(torch.rand(12, 3, 16, 16), torch.arange(12) % N), batch_size=6)

tally = Tally(N)
with torch.inference_mode():
    for image, truth in loader:
        logits = model(pixel_values=image.to(device)).logits
        tally.update(logits.argmax(-1), truth.to(device))
print(tally.compute())
