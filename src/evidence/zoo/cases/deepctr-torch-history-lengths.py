import torch
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat
from deepctr_torch.models import DeepFM

columns = [
    SparseFeat("user", 10, embedding_dim=4),
    DenseFeat("age", 1),
    VarLenSparseFeat(SparseFeat("history", 20, embedding_dim=4), maxlen=5, combiner="mean",
                     length_name="history_length"),
]
model = DeepFM(columns, columns, dnn_hidden_units=(8, 4), device="cuda:0")
batch = torch.cat([
    torch.randint(10, (6, 1)).float(),
    torch.rand(6, 1),
    torch.randint(1, 20, (6, 5)).float(),
    torch.randint(1, 6, (6, 1)).float(),
], dim=1).to("cuda:0")
print(model(batch).shape)
print("SCENARIO OK")
