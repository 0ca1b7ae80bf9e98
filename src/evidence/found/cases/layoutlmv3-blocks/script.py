import tempfile

import torch
from transformers import LayoutLMv3Config, LayoutLMv3Model

config = LayoutLMv3Config(vocab_size=512, num_hidden_layers=2)
folder = tempfile.mkdtemp()
LayoutLMv3Model(config).save_pretrained(folder)
model = LayoutLMv3Model.from_pretrained(folder, device_map='sequential', max_memory={0: 48719352, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 2], [18, 19, 20, 21, 22, 23, 24, 2]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
    bbox=torch.tensor([1, 2, 30, 40]).expand(2, 8, 4).clone(),
    pixel_values=torch.randn(2, 3, 224, 224),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
