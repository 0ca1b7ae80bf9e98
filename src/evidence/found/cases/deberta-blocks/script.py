import tempfile

import torch
from transformers import DebertaConfig, DebertaForMaskedLM

config = DebertaConfig(
    vocab_size=512, hidden_size=96, num_hidden_layers=2, intermediate_size=384,
    pooler_hidden_size=96,
)
folder = tempfile.mkdtemp()
DebertaForMaskedLM(config).save_pretrained(folder)
model = DebertaForMaskedLM.from_pretrained(folder, device_map='auto', max_memory={0: 666048, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
