# cause: hard-coded-device
# guilty: ?
import kit
from torch import nn

batch = kit.Collator()([[1, 2, 3], [4, 5]])
model = nn.Embedding(9, 4).to("cuda:1")
print(model(batch["input_ids"]).shape)
