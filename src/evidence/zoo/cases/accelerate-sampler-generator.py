import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

torch.set_default_device("cuda:0")
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
data = torch.utils.data.TensorDataset(torch.arange(8.0))
loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
for (batch,) in accelerator.prepare(loader):
    print(batch.device)
print("SCENARIO OK")
