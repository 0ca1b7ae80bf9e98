import tempfile

import torch
from transformers import XLNetConfig, XLNetLMHeadModel

config = XLNetConfig(vocab_size=512, d_model=512, n_layer=2, d_inner=2048, d_head=32)
folder = tempfile.mkdtemp()
XLNetLMHeadModel(config).save_pretrained(folder)
model = XLNetLMHeadModel.from_pretrained(folder, device_map='auto', max_memory={0: 14186496, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 2], [18, 19, 20, 21, 22, 23, 24, 2]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
