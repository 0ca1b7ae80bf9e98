import tempfile

import torch
from transformers import BarkSemanticConfig, BarkSemanticModel

config = BarkSemanticConfig(
    input_vocab_size=512, output_vocab_size=512, num_layers=2, hidden_size=96,
)
folder = tempfile.mkdtemp()
BarkSemanticModel(config).save_pretrained(folder)
model = BarkSemanticModel.from_pretrained(folder, device_map='auto', max_memory={0: 787921, 1: '1000GB'})
inputs = dict(
    input_ids=torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17], [18, 19, 20, 21, 22, 23, 24, 25]]).reshape(2, 8),
    attention_mask=torch.full((2, 8,), 1),
)
inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}
model(**inputs)
