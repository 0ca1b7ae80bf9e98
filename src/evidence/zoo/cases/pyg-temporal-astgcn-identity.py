import torch
from torch_geometric_temporal.nn import ASTGCN

edges = torch.tensor([[0, 1, 2, 3, 1, 3], [1, 0, 3, 2, 3, 1]], device="cuda:1")
model = ASTGCN(
    nb_block=1,
    in_channels=1,
    K=2,
    nb_chev_filter=4,
    nb_time_filter=4,
    time_strides=1,
    num_for_predict=2,
    len_input=6,
    num_of_vertices=4,
    normalization="sym",
).to("cuda:1")
forecast = model(torch.randn(3, 4, 1, 6, device="cuda:1"), edges)
print(forecast.shape)
print("SCENARIO OK")
