import tempfile

import torch
from transformers import BeitConfig, BeitForImageClassification

config = BeitConfig(
    problem_type='single_label_classification', vocab_size=512, hidden_size=96,
    num_hidden_layers=2, intermediate_size=384, stage_names=['stem', 'stage1', 'stage2'],
    out_features=['stage2'], out_indices=[2],
)
folder = tempfile.mkdtemp()
BeitForImageClassification(config).save_pretrained(folder)
model = BeitForImageClassification.from_pretrained(folder, device_map='auto', max_memory={0: 596356, 1: "1000GB"})
inputs = dict(pixel_values=torch.randn(2, 3, 224, 224), labels=torch.full((2,), 0))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
