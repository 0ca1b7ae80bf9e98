import tempfile

import torch
from transformers import Sam2HieraDetConfig, Sam2HieraDetModel

config = Sam2HieraDetConfig(
    hidden_size=12, image_size=[256, 256], blocks_per_stage=[1, 2, 2, 2],
    embed_dim_per_stage=[12, 24, 48, 96], global_attention_blocks=[2, 2, 2],
)
folder = tempfile.mkdtemp()
Sam2HieraDetModel(config).save_pretrained(folder)
model = Sam2HieraDetModel.from_pretrained(folder, device_map='auto', max_memory={0: 197719, 1: '1000GB'})
inputs = dict(pixel_values=torch.randn(2, 3, 256, 256))
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
