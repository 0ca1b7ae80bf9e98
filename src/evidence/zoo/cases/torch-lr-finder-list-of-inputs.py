import torch
from torch_lr_finder import LRFinder


class TwoInputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(4, 3), torch.nn.Linear(2, 3)

    def forward(self, inputs):
        left, right = inputs
        return self.left(left) + self.right(right)


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return [torch.randn(4), torch.randn(2)], index % 3


model = TwoInputs().to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
finder = LRFinder(model, optimizer, torch.nn.CrossEntropyLoss(), device="cuda:0")
finder.range_test(torch.utils.data.DataLoader(Pairs(), batch_size=4), end_lr=1, num_iter=4)
print(finder.history["lr"])
print("SCENARIO OK")
