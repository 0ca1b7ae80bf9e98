import torch
from lightning.pytorch import Trainer
from pytorch_forecasting.metrics import MAE
from pytorch_forecasting.models.dlinear._dlinear_v2 import DLinear
from torch.utils.data import DataLoader
from torchmetrics import MeanSquaredError


class Windows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"history_cont": torch.randn(12, 2), "history_target": torch.randn(12, 1)}, torch.randn(4, 1)


metadata = {"context_length": 12, "prediction_length": 4, "n_features": {"continuous": 2, "target": 1}}
model = DLinear(loss=MAE(), moving_avg=3, logging_metrics=[MeanSquaredError()], metadata=metadata)
trainer = Trainer(
    max_epochs=1, accelerator="gpu", devices=[0], logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(model, DataLoader(Windows(), batch_size=4))
print(trainer.callback_metrics)
print("SCENARIO OK")
