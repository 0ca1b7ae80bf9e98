import tempfile

import torch
from transformers import ConvBertConfig, ConvBertModel

config = ConvBertConfig(
    vocab_size=512, hidden_size=96, num_hidden_layers=2, intermediate_size=384, embedding_size=96,
)
folder = tempfile.mkdtemp()
ConvBertModel(config).save_pretrained(folder)
model = ConvBertModel.from_pretrained(folder, device_map='auto', max_memory={0: 483186, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 2], [18, 19, 20, 21, 22, 23, 24, 2]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
