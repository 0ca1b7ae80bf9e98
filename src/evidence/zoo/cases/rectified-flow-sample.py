import torch
from rectified_flow_pytorch import RectifiedFlow


class Field(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(size + 1, 16), torch.nn.SiLU(),
                                          torch.nn.Linear(16, size))

    def forward(self, points, times):
        times = times.reshape(-1, 1).expand(len(points), 1)
        return self.layers(torch.cat([points, times], dim=1))


flow = RectifiedFlow(Field(4), time_cond_kwarg="times").to("cuda:0")
optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
for _ in range(2):
    optimizer.zero_grad()
    flow(torch.randn(8, 4, device="cuda:0")).backward()
    optimizer.step()
print(flow.sample(batch_size=3, steps=4).shape)
print("SCENARIO OK")
