import torch
from mmengine.analysis import get_model_complexity_info


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Linear(12, 8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, images):
        hidden = self.features(images.flatten(1))
        return self.head(hidden.relu())


model = Classifier().to("cuda:0").eval()
report = get_model_complexity_info(model, input_shape=(3, 2, 2), show_arch=False, show_table=False)
print(report["flops_str"], report["params_str"])
print("SCENARIO OK")
