import torch
from mmengine.analysis import get_model_complexity_info


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, images):
        features = self.convolution(images).relu()
        return self.head(features.mean((2, 3)))


model = Network().to("cuda:0")
facts = get_model_complexity_info(model, input_shape=(3, 16, 16), show_table=False, show_arch=False)
print(facts["flops_str"], facts["params_str"])
print("SCENARIO OK")
