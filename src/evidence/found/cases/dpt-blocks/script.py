import tempfile

import torch
from transformers import DPTConfig, DPTForDepthEstimation

config = DPTConfig()
folder = tempfile.mkdtemp()
DPTForDepthEstimation(config).save_pretrained(folder)
model = DPTForDepthEstimation.from_pretrained(folder, device_map='auto', max_memory={0: 200966521, 1: '1000GB'})
inputs = dict(pixel_values=torch.randn(2, 3, 384, 384))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
