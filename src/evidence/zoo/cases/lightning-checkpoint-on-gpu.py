import os
import tempfile

import torch
from pytorch_lightning import LightningModule, Trainer


class Regression(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, batch):
        return self.layer(batch)

    def training_step(self, batch, index):
        return self(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.ckpt")
    trainer = Trainer(max_epochs=1, accelerator="gpu", devices=[0], logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Regression(), torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=4))
    trainer.save_checkpoint(path)
    model = Regression.load_from_checkpoint(path, map_location="cuda:0")
with torch.no_grad():
    print(model(torch.randn(2, 4, device="cuda:0")).shape)
print("SCENARIO OK")
