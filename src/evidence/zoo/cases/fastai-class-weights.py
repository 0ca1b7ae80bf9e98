import torch
from fastai.data.core import DataLoaders
from fastai.callback.progress import ProgressCallback
from fastai.learner import Learner
from torch.utils.data import TensorDataset

data = TensorDataset(torch.randn(16, 4), torch.arange(16) % 3)
loaders = DataLoaders.from_dsets(data, data, bs=8, device=torch.device("cuda:0"), num_workers=0)
loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]))
learner = Learner(loaders, torch.nn.Linear(4, 3), loss_func=loss)
learner.remove_cb(ProgressCallback)
learner.fit(1)
print(learner.recorder.values)
print("SCENARIO OK")
