import tempfile

import torch
from transformers import HieraConfig, HieraForImageClassification

config = HieraConfig(
    problem_type='single_label_classification', depths=[2, 2, 2, 2], hidden_size=48,
)
folder = tempfile.mkdtemp()
HieraForImageClassification(config).save_pretrained(folder)
model = HieraForImageClassification.from_pretrained(folder, device_map='auto', max_memory={0: 10770863, 1: '1000GB'})
inputs = dict(pixel_values=torch.randn(2, 3, 224, 224))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
