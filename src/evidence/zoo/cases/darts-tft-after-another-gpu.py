import numpy as np
from darts import TimeSeries
from darts.models.forecasting.tft_model import TFTModel
from pytorch_lightning import Trainer

quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
         "enable_model_summary": False}
series = TimeSeries.from_values(np.sin(np.arange(24, dtype=np.float32)))
model = TFTModel(input_chunk_length=8, output_chunk_length=4, hidden_size=4, lstm_layers=1,
                 num_attention_heads=1, batch_size=1, n_epochs=1, add_relative_index=True,
                 pl_trainer_kwargs={"accelerator": "gpu", "devices": [0], **quiet})
model.fit(series)
forecast = model.predict(n=4, trainer=Trainer(accelerator="gpu", devices=[1], **quiet))
print(forecast.values().shape)
print("SCENARIO OK")
