import tempfile

import torch
from transformers import PatchTSTConfig, PatchTSTForPrediction

config = PatchTSTConfig(num_hidden_layers=2, d_model=32, ffn_dim=128)
folder = tempfile.mkdtemp()
PatchTSTForPrediction(config).save_pretrained(folder)
model = PatchTSTForPrediction.from_pretrained(folder, device_map='auto', max_memory={0: 34440, 1: '1000GB'})
inputs = dict(
    past_values=torch.randn(2, 32, 1), past_observed_mask=torch.randn(2, 32, 1),
    future_values=torch.randn(2, 24, 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
