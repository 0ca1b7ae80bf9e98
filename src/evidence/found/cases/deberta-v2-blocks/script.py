import tempfile

import torch
from transformers import DebertaV2Config, DebertaV2ForMaskedLM

config = DebertaV2Config(
    vocab_size=512, hidden_size=192, num_hidden_layers=2, intermediate_size=768,
    pooler_hidden_size=192,
)
folder = tempfile.mkdtemp()
DebertaV2ForMaskedLM(config).save_pretrained(folder)
model = DebertaV2ForMaskedLM.from_pretrained(folder, device_map='sequential', max_memory={0: 3517800, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
    labels=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
