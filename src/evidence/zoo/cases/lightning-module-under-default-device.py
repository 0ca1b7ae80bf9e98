import torch
from lightning.pytorch import LightningModule


class Reader(LightningModule):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(30, 8)
        self.places = torch.nn.Embedding(12, 8)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=self.device)
        return self.words(ids) + self.places(places)


with torch.device("cuda:1"):
    reader = Reader()
with torch.no_grad():
    print(reader(torch.randint(30, (2, 5), device="cuda:1")).shape)
print("SCENARIO OK")
