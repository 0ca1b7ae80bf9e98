import tempfile

import torch
from transformers import Sam3ViTConfig, Sam3ViTModel

config = Sam3ViTConfig(
    hidden_size=128, intermediate_size=592, num_hidden_layers=2, image_size=252,
    pretrain_image_size=168,
)
folder = tempfile.mkdtemp()
Sam3ViTModel(config).save_pretrained(folder)
model = Sam3ViTModel.from_pretrained(folder, device_map='auto', max_memory={0: 734151, 1: '1000GB'})
inputs = dict(pixel_values=torch.randn(2, 3, 252, 252))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
