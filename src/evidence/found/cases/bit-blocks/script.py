import tempfile

import torch
from transformers import BitConfig, BitForImageClassification

config = BitConfig(problem_type='single_label_classification', depths=[2, 2, 2, 2])
folder = tempfile.mkdtemp()
BitForImageClassification(config).save_pretrained(folder)
model = BitForImageClassification.from_pretrained(folder, device_map='auto', max_memory={0: 9803386, 1: "1000GB"})
inputs = dict(pixel_values=torch.randn(2, 3, 64, 64), labels=torch.full((2,), 0))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
