# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: mask (torch.from_numpy(mask))
import kit
import numpy as np
from torch import nn

net = nn.Linear(6, 2).to("cuda:0")
print(kit.Patch(net, "cuda:0").generate(np.ones((3, 6), dtype=np.float32)).shape)
