import tempfile

import torch
from transformers import DistilBertConfig, DistilBertForMaskedLM

config = DistilBertConfig(vocab_size=512, n_layers=2, dim=96, hidden_dim=384)
folder = tempfile.mkdtemp()
DistilBertForMaskedLM(config).save_pretrained(folder)
model = DistilBertForMaskedLM.from_pretrained(folder, device_map='auto', max_memory={0: 603954, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
    labels=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
