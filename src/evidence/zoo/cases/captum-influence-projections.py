import torch
from captum.influence import TracInCPFastRandProj
from captum.influence._utils.nearest_neighbors import NearestNeighbors
from torch.utils.data import TensorDataset


class Exact(NearestNeighbors):
    def setup(self, data):
        self.data = data

    def get_nearest_neighbors(self, query, k):
        scores, indices = (query @ self.data.T).topk(k)
        return indices, scores


def load(model, checkpoint):
    model.load_state_dict(checkpoint)
    return 0.1


model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).to("cuda:0")
inputs, labels = torch.randn(12, 6, device="cuda:0"), torch.randint(4, (12,), device="cuda:0")
nearest = Exact()
TracInCPFastRandProj(
    model, model[2], TensorDataset(inputs, labels), [model.state_dict()], checkpoints_load_func=load,
    loss_fn=torch.nn.CrossEntropyLoss(reduction="sum"), batch_size=4, nearest_neighbors=nearest, projection_dim=9,
)
print(nearest.data.shape)
print("SCENARIO OK")
