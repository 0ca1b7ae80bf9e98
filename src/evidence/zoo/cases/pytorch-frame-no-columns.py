import torch
from torch_frame.data import TensorFrame

users = TensorFrame(feat_dict={}, col_names_dict={}, y=torch.arange(6), num_rows=6).to("cuda:0")
weights = torch.nn.Embedding(6, 4).to("cuda:0")
chosen = torch.randperm(6, device="cuda:0")[:3]
batch = users[chosen]
print(weights(batch.y).shape, batch.num_rows)
print("SCENARIO OK")
