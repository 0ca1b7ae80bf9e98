# cause: tensor-created-on-wrong-device|metric-state-device
import torch
class RunningMeanStd:
    def __init__(self, shape):
        self.mean = torch.zeros(shape); self.count = 0
    def update(self, batch):
        self.count += 1
        self.mean = self.mean + (batch.mean(0) - self.mean) / self.count
rms = RunningMeanStd((4,))
for _ in range(2):
    rms.update(torch.randn(16, 4, device="cuda:0"))
