# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
import torch


class Replay:
    def __init__(self, size):
        self.rewards = torch.rand(size)
        self.order = torch.arange(size)

    def newest(self):
        return self.rewards[self.order.flip(0)][:4]

    def older_than(self, step):
        return self.order < step


step = torch.tensor([5, 6, 7, 8], device="cuda:0")
memory = Replay(4)
for _ in range(2):
    memory.older_than(step).sum()
    memory.newest().mean()
